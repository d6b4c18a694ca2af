// The spread of losses between units (SampleScore.h).
#pragma once

#include "runtime/evaluation/SampleScore.h"

#include <optional>
#include <span>
#include <vector>

namespace moert {

/// The number of units in the samples.
uint64_t unitCount(std::span<const SampleScore> samples);
/// The same from the unit of each window of one text (EvaluatedText::units).
uint64_t unitCountOfWindows(std::span<const uint32_t> units);

/// Each unit's own loss, in the metric's unit. For items, the lost points as a fraction of the
/// reference's mean points, because a single item's own fraction may be undefined.
std::vector<double> unitLosses(std::span<const SampleScore> samples, LossMetric metric);

/// The standard deviation of a unit's loss, in the metric's unit: the spread between documents. For
/// items, that of an item's lost points as a fraction of the reference's mean points, whose mean is
/// the loss. nullopt with fewer than 2 units or if the loss is undefined.
std::optional<double> unitSpread(std::span<const SampleScore> samples, LossMetric metric);

} // namespace moert
