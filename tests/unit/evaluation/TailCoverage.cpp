#include "tests/unit/evaluation/TailCoverage.h"

#include "runtime/base/DeterministicMath.h"
#include "runtime/base/RandomStream.h"
#include "runtime/evaluation/LossQuantile.h"
#include "runtime/evaluation/NormalQuantile.h"
#include "runtime/evaluation/RatioBound.h"

#include <algorithm>
#include <iterator>

namespace moert::test {

constexpr TailFamily kFamilies[] = {
    {"normal, deviation 0.5", 0, 0.5, 0, 0}, {"lognormal, sigma 0.5", 0.5, 0, 0, 0},
    {"lognormal, sigma 1", 1, 0, 0, 0},      {"lognormal, sigma 1.5", 1.5, 0, 0, 0},
    {"lognormal, sigma 2", 2, 0, 0, 0},      {"10% lose 10 times", 0, 0, 0.1, 10},
    {"3% lose 50 times", 0, 0, 0.03, 50}};

std::span<const TailFamily> tailFamilies() {
  return kFamilies;
}

static double nextNormal(RandomStream &random) {
  const double unit = std::max(random.nextUnit(), 1e-15);
  return unit < 0.5 ? -upperNormalQuantile(1 - unit) : upperNormalQuantile(unit);
}

static double nextLoss(const TailFamily &family, RandomStream &random) {
  if (family.sigma > 0)
    return deterministicExp(family.sigma * nextNormal(random) - family.sigma * family.sigma / 2);
  if (family.deviation > 0)
    return 1 + family.deviation * nextNormal(random);
  const double mean = 1 + family.rareFraction * (family.rareTimes - 1);
  return (random.nextUnit() < family.rareFraction ? family.rareTimes : 1) / mean;
}

// The largest loss of the 90% of units that lose least.
static double quantileOf(const TailFamily &family) {
  const double normal = upperNormalQuantile(kReportedFraction);
  if (family.sigma > 0)
    return deterministicExp(family.sigma * normal - family.sigma * family.sigma / 2);
  if (family.deviation > 0)
    return 1 + family.deviation * normal;
  const double mean = 1 + family.rareFraction * (family.rareTimes - 1);
  return (family.rareFraction > 1 - kReportedFraction ? family.rareTimes : 1) / mean;
}

TailCoverage measureTails(const TailFamily &family, uint32_t units, uint32_t draws, uint64_t seed) {
  RandomStream random(seed);
  TailCoverage coverage;
  coverage.mean.resize(std::size(kTestedLevels));
  coverage.quantile.resize(std::size(kTestedLevels));
  const double part = 1.0 / draws, trueQuantile = quantileOf(family);
  for (uint32_t draw = 0; draw < draws; ++draw) {
    std::vector<RatioUnit> sample;
    std::vector<SampleScore> scores;
    for (uint32_t unit = 0; unit < units; ++unit) {
      const double loss = nextLoss(family, random);
      sample.push_back({0, loss, 1});
      scores.push_back({.unit = unit, .tokens = 1, .klNats = loss});
    }
    coverage.heavy += part * checkTail(sample).isHeavy();
    for (size_t level = 0; level < std::size(kTestedLevels); ++level) {
      const double bound = *ratioUpperBound(sample, kTestedLevels[level]);
      coverage.mean[level] += part * (bound >= 1);
      if (kTestedLevels[level] == 0.964)
        coverage.width += part * (bound - 1);
      const std::optional<double> quantile =
          lossQuantileBound(scores, LossMetric::kKl, kReportedFraction, kTestedLevels[level]);
      coverage.quantile[level] += part * (quantile ? *quantile >= trueQuantile : -1);
    }
  }
  return coverage;
}

} // namespace moert::test
