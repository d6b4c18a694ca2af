// How much units (SampleScore.h) differ in what they lose.
#pragma once

#include "runtime/evaluation/SampleScore.h"

#include <optional>
#include <span>

namespace moert {

/// How many units the samples are.
uint64_t unitCount(std::span<const SampleScore> samples);

/// The standard deviation of a unit's loss, in the metric's unit: the spread between documents. Of
/// items, it is that of the points that one loses, as a fraction of the reference's mean points:
/// their mean is the loss. Nothing with fewer than 2 units, and where the loss is not defined.
std::optional<double> unitSpread(std::span<const SampleScore> samples, LossMetric metric);

} // namespace moert
