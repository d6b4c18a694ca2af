// Coverage of the bound of the mean and of the quantile's, for heavy tails, as the tables of
// docs/accuracy.md. Seeds are fixed: the tables are the same on every machine.
//
//   tail_coverage [DRAWS]
//
// Takes half a minute with 2,000 draws.
#include "tests/unit/evaluation/TailCoverage.h"

#include <cstdio>
#include <cstdlib>

using namespace moert::test;

static void printCells(const std::vector<double> &fractions) {
  for (double fraction : fractions)
    if (fraction < 0)
      std::printf(" - |");
    else
      std::printf(" %.2f%% |", fraction * 100);
  std::printf("\n");
}

int main(int count, char **arguments) {
  const auto draws = static_cast<uint32_t>(count > 1 ? std::atoi(arguments[1]) : 2000);
  std::vector<std::vector<TailCoverage>> all;
  for (const TailFamily &family : tailFamilies())
    for (uint32_t units : kTestedUnits) {
      if (units == kTestedUnits[0])
        all.emplace_back();
      all.back().push_back(measureTails(family, units, draws, all.size() * 1000 + units));
    }
  for (const bool isOfMean : {true, false}) {
    std::printf("\n| losses | units |%s", isOfMean ? " heavy tail | width |" : "");
    for (double level : kTestedLevels)
      std::printf(" %g%% |", level * 100);
    std::printf("\n");
    for (size_t f = 0; f < all.size(); ++f)
      for (size_t u = 0; u < all[f].size(); ++u) {
        const TailCoverage &each = all[f][u];
        std::printf("| %s | %u |", tailFamilies()[f].name, kTestedUnits[u]);
        if (isOfMean)
          std::printf(" %.1f%% | %.2f |", each.heavy * 100, each.width);
        printCells(isOfMean ? each.mean : each.quantile);
      }
  }
}
