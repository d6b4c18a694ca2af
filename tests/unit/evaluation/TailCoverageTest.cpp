// Coverage at every level that acceptance tests have, for heavy tails, with few draws. With
// MOE_FULL=1 as many as the tables of docs/accuracy.md are of, which are printed; that takes half a
// minute. Seeds are fixed: the tables are the same on every machine.
#include "tests/unit/evaluation/TailCoverage.h"

#include "tests/unit/evaluation/SyntheticUnits.h"
#include "tests/unit/support/Full.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <iterator>

using namespace moert::test;

static void printCells(const std::vector<double> &fractions) {
  for (double fraction : fractions)
    if (fraction < 0)
      std::printf(" - |");
    else
      std::printf(" %.2f%% |", fraction * 100);
  std::printf("\n");
}

static void printTable(const std::vector<std::vector<TailCoverage>> &all, bool isOfMean) {
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

static void check(const TailFamily &family, uint32_t units, const TailCoverage &coverage,
                  uint32_t draws) {
  // A loss of 3% of the documents that no unit of the sample shows is beyond the assumption; of the
  // longest tail 20 units show too little.
  const bool isSeen = family.rareFraction != 0.03 || units == 200;
  const double missed = family.sigma == 2 && units == 20 ? 0.03 : 0;
  for (size_t level = 0; level < std::size(kTestedLevels); ++level) {
    CAPTURE(family.name);
    CAPTURE(units);
    CAPTURE(kTestedLevels[level]);
    const double least = leastCoverage(kTestedLevels[level], draws);
    if (isSeen)
      CHECK(coverage.mean[level] >= least - missed);
    if (coverage.quantile[level] >= 0)
      CHECK(coverage.quantile[level] >= least);
  }
  if (family.deviation > 0) // Harmless losses are nearly never taken for a heavy tail.
    CHECK(coverage.heavy <= 0.03);
  if (family.sigma == 2)
    CHECK(coverage.heavy >= 0.6);
}

TEST_CASE("the bounds of mean and quantile cover at every level of acceptance tests") {
  const uint32_t draws = isFull() ? 2000 : 200;
  std::vector<std::vector<TailCoverage>> all;
  for (const TailFamily &family : tailFamilies()) {
    std::vector<TailCoverage> &ofFamily = all.emplace_back();
    for (uint32_t units : kTestedUnits) {
      ofFamily.push_back(measureTails(family, units, draws, all.size() * 1000 + units));
      check(family, units, ofFamily.back(), draws);
    }
  }
  for (const bool isOfMean : {true, false})
    printTable(all, isOfMean);
}

TEST_CASE("rare losses that the sample does not show are beyond the bound of the mean, and the "
          "quantile holds all the same") {
  constexpr uint32_t kDraws = 200;
  const TailFamily &rare = tailFamilies().back();
  const TailCoverage coverage = measureTails(rare, 40, kDraws, 7);
  CHECK(coverage.mean[1] < 0.8); // 30% of samples of 40 units have none of these documents.
  CHECK(coverage.quantile[1] >= leastCoverage(kTestedLevels[1], kDraws));
}
