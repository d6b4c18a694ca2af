// The upper confidence bound of a loss that was measured on samples.
#pragma once

#include "runtime/evaluation/RatioBound.h"
#include "runtime/evaluation/SampleScore.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace moert {

/// The one-sided upper confidence bound of the loss in the population that the samples' units were
/// drawn from (RatioBound.h); each text is a stratum. Never below lossOf() the samples. nullopt
/// with fewer than kMinimumBoundUnits units or if the loss is undefined. Samples of a unit
/// and of a text are consecutive. Confidence: 0.9 to 0.9999. The same samples give the same bound
/// on every machine.
std::optional<double> lossUpperBound(std::span<const SampleScore> samples, LossMetric metric,
                                     double confidence = 0.95);

/// A unit that loses so much more than the others that it decides the bound (TailCheck).
struct HeavyUnit {
  uint32_t text = 0, unit = 0; // As SampleScore's.
  double loss = 0;             // Its own, in the metric's unit.
  double part = 0;             // Squared deviation over the sum of all units, 0 to 1.
};

/// The unit with the largest loss where that is a heavy tail. nullopt otherwise, and for items,
/// whose losses have a known largest value.
std::optional<HeavyUnit> heavyUnitOf(std::span<const SampleScore> samples, LossMetric metric);

/// A sentence about it that begins in lower case: which unit, what it loses, what helps. The names
/// and the loss are as the caller writes them.
std::string heavyUnitText(const HeavyUnit &heavy, const std::string &textName,
                          const std::string &loss);

/// The fraction of the reference's points that could be lost, with this confidence, although none
/// of these items lost any: 1 - (1 - confidence)^(1/n) of the n in which the reference has points.
/// 1 without such items. No bound of items is below it.
double leastBound(std::span<const SampleScore> items, double confidence = 0.95);

/// Bytes that lossUpperBound() allocates for so many samples, at most.
uint64_t lossBoundMemoryBytes(size_t samples);

} // namespace moert
