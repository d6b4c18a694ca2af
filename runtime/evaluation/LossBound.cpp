#include "runtime/evaluation/LossBound.h"

#include "runtime/base/DeterministicMath.h"
#include "runtime/evaluation/UnitSpread.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace moert {

// Every loss is a function of a ratio of sums; these are a sample's terms in them.
static std::pair<double, double> ratioParts(const SampleScore &sample, LossMetric metric) {
  const double tokens = static_cast<double>(sample.tokens);
  switch (metric) {
  case LossMetric::kPerplexity:
    return {sample.lossNats - sample.referenceLossNats, tokens};
  case LossMetric::kKl:
    return {sample.klNats, tokens};
  case LossMetric::kTop1:
    return {tokens - static_cast<double>(sample.agreeing), tokens};
  default:
    return {sample.referencePoints - sample.points, sample.referencePoints};
  }
}

static std::vector<RatioUnit> unitsOf(std::span<const SampleScore> samples, LossMetric metric) {
  std::vector<RatioUnit> units;
  units.reserve(unitCount(samples));
  for (size_t i = 0; i < samples.size(); ++i) {
    if (beginsUnit(samples, i))
      units.push_back({samples[i].text, 0, 0});
    const auto [total, size] = ratioParts(samples[i], metric);
    units.back().total += total;
    units.back().size += size;
  }
  return units;
}

std::optional<double> lossUpperBound(std::span<const SampleScore> samples, LossMetric metric,
                                     double confidence) {
  const std::optional<double> loss = lossOf(sumOf(samples), metric);
  if (!loss)
    return std::nullopt;
  // An item can lose all of its points, and many items are needed to rule that out. A document
  // could in theory lose agreement on all of its tokens, but real documents do not.
  std::optional<double> largestRatio;
  if (isOfItems(metric))
    largestRatio = 1;
  std::optional<double> bound = ratioUpperBound(unitsOf(samples, metric), confidence, largestRatio);
  if (!bound)
    return std::nullopt;
  if (metric == LossMetric::kPerplexity)
    bound = deterministicExp(*bound) - 1;
  else if (metric != LossMetric::kKl)
    bound = std::min(*bound, 1.0);
  if (isOfItems(metric))
    bound = std::max(*bound, leastBound(samples, confidence));
  return std::max(*bound, *loss);
}

std::optional<HeavyUnit> heavyUnitOf(std::span<const SampleScore> samples, LossMetric metric) {
  if (isOfItems(metric) || unitCount(samples) < kMinimumBoundUnits ||
      !lossOf(sumOf(samples), metric))
    return std::nullopt;
  const TailCheck tail = checkTail(unitsOf(samples, metric));
  if (!tail.isHeavy())
    return std::nullopt;
  size_t first = 0;
  for (size_t unit = 0; unit < tail.unit; ++unit)
    do
      ++first;
    while (!beginsUnit(samples, first));
  return HeavyUnit{samples[first].text, samples[first].unit, unitLosses(samples, metric)[tail.unit],
                   tail.part};
}

std::string heavyUnitText(const HeavyUnit &heavy, const std::string &textName,
                          const std::string &loss) {
  return strCat("heavy tail: unit ", heavy.unit + 1, " of ", textName, " loses ", loss, ", ",
                std::lround(heavy.part * 100),
                "% of the sum of all units' squared deviations, and the bound of the mean is wide "
                "for it; more documents help, or a look at this one (a unit is a document, or a "
                "window of short ones)");
}

double leastBound(std::span<const SampleScore> items, double confidence) {
  const auto count = std::count_if(
      items.begin(), items.end(), [](const SampleScore &item) { return item.referencePoints > 0; });
  return count == 0
             ? 1
             : 1 - deterministicExp(deterministicLog(1 - confidence) / static_cast<double>(count));
}

uint64_t lossBoundMemoryBytes(size_t samples) {
  return samples * sizeof(RatioUnit) + ratioBoundMemoryBytes(samples);
}

} // namespace moert
