// Coverage at every level that acceptance tests have, for heavy tails, with few draws; the bench
// tail_coverage makes the tables of docs/accuracy.md with many. Seeds are fixed.
#include "tests/unit/evaluation/TailCoverage.h"

#include <doctest/doctest.h>

#include <cmath>
#include <iterator>
#include <string_view>

using namespace moert::test;

constexpr uint32_t kDraws = 200;

// Four standard errors of a fraction of so many draws, below the level.
static double leastCoverage(double level) {
  return level - 4 * std::sqrt(level * (1 - level) / kDraws) - 0.5 / kDraws;
}

TEST_CASE("the bounds of mean and quantile cover at every level of acceptance tests") {
  uint64_t seed = 0;
  for (const TailFamily &family : tailFamilies())
    for (uint32_t units : kTestedUnits) {
      const TailCoverage coverage = measureTails(family, units, kDraws, ++seed);
      // A loss of 3% of the documents that no unit of the sample shows is beyond the assumption; of
      // the longest tail 20 units show too little.
      const bool isSeen = family.rareFraction != 0.03 || units == 200;
      const double missed = family.sigma == 2 && units == 20 ? 0.03 : 0;
      for (size_t level = 0; level < std::size(kTestedLevels); ++level) {
        CAPTURE(family.name);
        CAPTURE(units);
        CAPTURE(kTestedLevels[level]);
        if (isSeen)
          CHECK(coverage.mean[level] >= leastCoverage(kTestedLevels[level]) - missed);
        if (coverage.quantile[level] >= 0)
          CHECK(coverage.quantile[level] >= leastCoverage(kTestedLevels[level]));
      }
      if (family.deviation > 0) // Harmless losses are nearly never taken for a heavy tail.
        CHECK(coverage.heavy <= 0.03);
      if (family.sigma == 2)
        CHECK(coverage.heavy >= 0.6);
    }
}

TEST_CASE("rare losses that the sample does not show are beyond the bound of the mean, and the "
          "quantile holds all the same") {
  const TailFamily &rare = tailFamilies().back();
  const TailCoverage coverage = measureTails(rare, 40, kDraws, 7);
  CHECK(coverage.mean[1] < 0.8); // 30% of samples of 40 units have none of these documents.
  CHECK(coverage.quantile[1] >= leastCoverage(kTestedLevels[1]));
}
