#include "tests/unit/evaluation/SyntheticUnits.h"

#include "runtime/base/DeterministicMath.h"
#include "runtime/base/Status.h"

#include <algorithm>
#include <cmath>

namespace moert::test {

// Marsaglia's polar method.
static double nextNormal(RandomStream &random) {
  for (;;) {
    const double x = 2 * random.nextUnit() - 1, y = 2 * random.nextUnit() - 1;
    const double square = x * x + y * y;
    if (square > 0 && square < 1)
      return x * std::sqrt(-2 * deterministicLog(square) / square);
  }
}

constexpr double kNormalDeviation = 0.7;
constexpr double kRareFraction = 0.1, kRareLoss = 10, kTwoModeMean = 1.9;

static double nextLoss(LossFamily family, RandomStream &random) {
  switch (family) {
  case LossFamily::kNormal:
    return 1 + kNormalDeviation * nextNormal(random);
  case LossFamily::kLognormal:
    return deterministicExp(nextNormal(random) - 0.5);
  default:
    return (random.nextUnit() < kRareFraction ? kRareLoss : 1) / kTwoModeMean;
  }
}

static double varianceOf(LossFamily family) {
  switch (family) {
  case LossFamily::kNormal:
    return kNormalDeviation * kNormalDeviation;
  case LossFamily::kLognormal:
    return deterministicExp(1) - 1;
  default:
    return (kRareFraction * kRareLoss * kRareLoss + 1 - kRareFraction) /
               (kTwoModeMean * kTwoModeMean) -
           1;
  }
}

std::string Population::name() const {
  const char *families[] = {"normal", "lognormal", "two-mode"};
  return strCat(families[static_cast<int>(family)], ", between/within ", betweenOverWithin, ", ",
                units, " units, ", hasUnequalUnits ? "unequal" : "equal", " units, ",
                hasUnequalFiles ? "unequal" : "equal", " files");
}

static std::vector<uint32_t> fileSizes(const Population &population) {
  const uint32_t units = population.units;
  if (!population.hasUnequalFiles)
    return std::vector<uint32_t>(5, units / 5);
  const uint32_t tenth = std::max(3u, units / 10), quarter = units / 4;
  return {1, 2, tenth, quarter, units - 3 - tenth - quarter};
}

// The sum over a document's windows.
static double documentLoss(const Population &population, uint32_t windows, RandomStream &random) {
  double sum = 0;
  if (population.betweenOverWithin == 0) {
    for (uint32_t i = 0; i < windows; ++i)
      sum += nextLoss(population.family, random);
    return sum;
  }
  const double within = std::sqrt(varianceOf(population.family) / population.betweenOverWithin);
  return windows * nextLoss(population.family, random) +
         std::sqrt(double(windows)) * within * nextNormal(random);
}

Draw drawUnits(const Population &population, RandomStream &random) {
  constexpr double kFileMeans[] = {0.5, 1.5, 1, 1.25, 0.75};
  Draw draw;
  double total = 0, size = 0;
  const std::vector<uint32_t> files = fileSizes(population);
  for (uint32_t file = 0; file < files.size(); ++file)
    for (uint32_t i = 0; i < files[file]; ++i) {
      const uint32_t windows = population.hasUnequalUnits ? 1 + random.nextBelow(30) : 1;
      const double loss = documentLoss(population, windows, random);
      draw.units.push_back({file, kFileMeans[file] * loss, double(windows)});
      total += kFileMeans[file] * windows;
      size += windows;
    }
  draw.truth = total / size;
  return draw;
}

double leastCoverage(double level, uint32_t draws) {
  return level - 3 * std::sqrt(level * (1 - level) / draws) - 0.5 / draws;
}

std::vector<Population> allPopulations() {
  std::vector<Population> populations;
  for (uint32_t units : {20u, 40u, 60u, 90u, 185u})
    for (LossFamily family : {LossFamily::kNormal, LossFamily::kLognormal, LossFamily::kTwoMode})
      for (double betweenOverWithin : {0.0, 1.0, 4.0})
        for (bool hasUnequalUnits : {false, true})
          for (bool hasUnequalFiles : {false, true})
            populations.push_back(
                {family, betweenOverWithin, units, hasUnequalUnits, hasUnequalFiles});
  return populations;
}

} // namespace moert::test
