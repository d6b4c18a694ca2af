#include "runtime/evaluation/RatioBound.h"

#include "runtime/base/RandomStream.h"
#include "runtime/evaluation/NormalQuantile.h"
#include "tests/unit/support/CountAllocations.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace moert;

/// Units of size 1 whose totals alternate between 0 and 2, in files of so many.
static std::vector<RatioUnit> alternating(uint32_t count, uint32_t fileUnits) {
  std::vector<RatioUnit> units;
  for (uint32_t i = 0; i < count; ++i)
    units.push_back({i / fileUnits, i % 2 ? 2.0 : 0.0, 1});
  return units;
}

TEST_CASE("fewer than 20 units have no bound, however large they are") {
  std::vector<RatioUnit> units(19, {0, 5, 1000});
  CHECK_FALSE(ratioUpperBound(units, 0.95));
  units.push_back(units.back());
  CHECK(ratioUpperBound(units, 0.95));
}

TEST_CASE("sizes that add up to nothing have no ratio and no bound") {
  CHECK_FALSE(ratioUpperBound(std::vector<RatioUnit>(30), 0.95));
}

TEST_CASE("with many units the bound is the normal one, at any confidence") {
  // Mean 1, deviation of the mean 1 / 100. The unseen unit adds 1.6% to 2.6% of a deviation, and
  // the deviation of a factor of 2 makes the tails differ by less.
  const std::vector<RatioUnit> units = alternating(10000, 10000);
  const double quantiles[][2] = {{0.9, 1.2816}, {0.95, 1.6449}, {0.99, 2.3263}, {0.9999, 3.719}};
  for (const auto &[confidence, quantile] : quantiles)
    CHECK(*ratioUpperBound(units, confidence) ==
          doctest::Approx(1 + quantile / 100).epsilon(0.0004));
}

TEST_CASE("the bound rises with the confidence and falls with the units") {
  const std::vector<RatioUnit> few = alternating(40, 40), many = alternating(80, 80);
  double last = 1;
  for (double confidence : {0.9, 0.95, 0.96, 0.9833, 0.9967, 0.9999}) {
    const double bound = *ratioUpperBound(few, confidence);
    CHECK(bound > last);
    CHECK(*ratioUpperBound(many, confidence) < bound);
    last = bound;
  }
}

TEST_CASE("the bound follows the scale of totals and of sizes") {
  std::vector<RatioUnit> units = alternating(60, 20);
  const double bound = *ratioUpperBound(units, 0.95);
  for (RatioUnit &unit : units) {
    unit.total *= 1e-9;
    unit.size *= 512;
  }
  CHECK(*ratioUpperBound(units, 0.95) == doctest::Approx(bound * 1e-9 / 512).epsilon(1e-8));
}

TEST_CASE("differences between files widen no bound") {
  // Two files without any spread of their own: what is left is the unseen unit of 200 alike.
  std::vector<RatioUnit> units(100, {0, 5, 1});
  units.insert(units.end(), 100, {1, 1, 1});
  CHECK(*ratioUpperBound(units, 0.95) == doctest::Approx(3).epsilon(1e-3));
  for (RatioUnit &unit : units)
    unit.stratum = 0;
  CHECK(*ratioUpperBound(units, 0.95) > 3.2);
}

TEST_CASE("files of one unit each have the spread of all units") {
  // As one file, and as 100: a file's own ratio would hide all of the spread.
  CHECK(*ratioUpperBound(alternating(100, 1), 0.95) ==
        *ratioUpperBound(alternating(100, 100), 0.95));
}

TEST_CASE("a file of few units joins the smallest other one") {
  // Of 63 units, the last file has 3 with a ratio of their own: as if it were the second file's.
  std::vector<RatioUnit> apart, joined;
  for (uint32_t i = 0; i < 63; ++i) {
    const double total = i < 60 ? i % 2 : 7;
    apart.push_back({i < 40 ? 0u : i < 60 ? 1u : 2u, total, 1});
    joined.push_back({i < 40 ? 0u : 1u, total, 1});
  }
  CHECK(*ratioUpperBound(apart, 0.95) == *ratioUpperBound(joined, 0.95));
}

TEST_CASE("where a unit's ratio is at most 1, units that are all 0 have the exact bound") {
  // With probability 0.05, so many units miss a fraction of 1 - 0.05^(1/n). The saddlepoint formula
  // is within 1% of it.
  for (uint32_t count : {20u, 59u, 1000u})
    for (double confidence : {0.95, 0.9967})
      CHECK(*ratioUpperBound(std::vector<RatioUnit>(count, {0, 0, 1}), confidence, 1) ==
            doctest::Approx(1 - std::pow(1 - confidence, 1.0 / count)).epsilon(0.01));
}

TEST_CASE("where a unit's ratio is at most 1, zeros and ones have Clopper and Pearson's bound") {
  // 40 of 400: the fraction with which 40 or fewer have a probability of 5%, from scipy 1.17:
  // beta.ppf(0.95, 41, 360).
  std::vector<RatioUnit> units;
  for (uint32_t i = 0; i < 400; ++i)
    units.push_back({0, i % 10 ? 0.0 : 1.0, 1});
  CHECK(*ratioUpperBound(units, 0.95, 1) == doctest::Approx(0.128181).epsilon(0.002));
}

TEST_CASE("few units that are all alike leave room for a tenth that loses ten times as much") {
  const double truth = 0.9 + 0.1 * 10;
  CHECK(*ratioUpperBound(std::vector<RatioUnit>(20, {0, 1, 1}), 0.95) > truth);
  CHECK(*ratioUpperBound(std::vector<RatioUnit>(28, {0, 1, 1}), 0.95) > truth);
  // 100 units would show them.
  CHECK(*ratioUpperBound(std::vector<RatioUnit>(100, {0, 1, 1}), 0.95) < 1.01);
}

/// Quantiles of a lognormal distribution of this sigma, in no order, and of a normal one at 0.
static std::vector<RatioUnit> quantilesOf(double sigma, uint32_t count) {
  std::vector<RatioUnit> units;
  for (uint32_t i = 0; i < count; ++i) {
    const double p = ((i * 7) % count + 0.5) / count;
    const double z = p < 0.5 ? -upperNormalQuantile(1 - p) : upperNormalQuantile(p);
    units.push_back({0, sigma > 0 ? std::exp(sigma * z) : 10 + z, 1});
  }
  return units;
}

TEST_CASE("a heavy tail is found by the largest unit's part, named, and widens the bound") {
  const std::vector<RatioUnit> units = quantilesOf(2, 50);
  const TailCheck tail = checkTail(units);
  CHECK(tail.isHeavy());
  CHECK(tail.unit == 7); // 7 * 7 % 50 is the last quantile.
  CHECK(tail.part > 0.5);
  // Scaling the excesses of the same sample by a constant changes nothing of the check.
  std::vector<RatioUnit> scaled = units;
  for (RatioUnit &unit : scaled)
    unit.total *= 1e-6;
  CHECK(checkTail(scaled).widening == doctest::Approx(tail.widening).epsilon(1e-9));
}

TEST_CASE("normal losses and losses of a few sizes have no heavy tail") {
  CHECK_FALSE(checkTail(quantilesOf(0, 50)).isHeavy());
  CHECK_FALSE(checkTail(quantilesOf(0, 400)).isHeavy());
  CHECK_FALSE(checkTail(alternating(60, 20)).isHeavy());
  CHECK_FALSE(checkTail(std::vector<RatioUnit>(30, {0, 1, 1})).isHeavy());
}

TEST_CASE("a tail of gains is not one of losses") {
  std::vector<RatioUnit> units = quantilesOf(2, 50);
  for (RatioUnit &unit : units)
    unit.total = -unit.total;
  CHECK_FALSE(checkTail(units).isHeavy());
}

TEST_CASE("most units alike and a few that lose more have a finite bound") {
  // Both deciles may equal the median: there is no scale to continue the tail with.
  std::vector<RatioUnit> units(100, {0, 1, 1});
  for (size_t rare : {3, 50, 77})
    units[rare].total = 50;
  CHECK(std::isfinite(*ratioUpperBound(units, 0.9999)));
  units[4].total = 0.999;
  CHECK(std::isfinite(*ratioUpperBound(units, 0.9999)));
}

TEST_CASE("no loss in any unit has no bound above it") {
  CHECK(*ratioUpperBound(std::vector<RatioUnit>(20, {0, 0, 1}), 0.95) == 0);
}

TEST_CASE("a bound is never below the ratio, gains included") {
  RandomStream random(3);
  for (int i = 0; i < 1000; ++i) {
    std::vector<RatioUnit> units;
    double total = 0, size = 0;
    for (uint32_t u = 0; u < 30; ++u) {
      units.push_back({u / 10, random.nextUnit() - 0.6, 1.0 + random.nextBelow(1000)});
      total += units.back().total;
      size += units.back().size;
    }
    const double bound = *ratioUpperBound(units, 0.95);
    CHECK(bound > total / size);
    CHECK(bound == *ratioUpperBound(units, 0.95));
  }
}

TEST_CASE("units whose sizes differ by a factor of 10 million have a finite bound") {
  std::vector<RatioUnit> units;
  for (uint32_t i = 0; i < 40; ++i)
    units.push_back({0, i % 4 ? 1e-7 : 2, i % 2 ? 1.0 : 1e7});
  const double bound = *ratioUpperBound(units, 0.95);
  CHECK(std::isfinite(bound));
  CHECK(bound > 0);
}

TEST_CASE("a bound allocates at most the stated bytes, whatever the files") {
  for (uint32_t fileUnits : {1u, 7u, 50u, 1000u}) {
    const std::vector<RatioUnit> units = alternating(1000, fileUnits);
    const uint64_t before = allocatedBytesSoFar();
    ratioUpperBound(units, 0.95);
    const uint64_t allocated = allocatedBytesSoFar() - before;
    CHECK(allocated <= ratioBoundMemoryBytes(units.size()));
    if (fileUnits == 1)
      CHECK(allocated == ratioBoundMemoryBytes(units.size()));
  }
}
