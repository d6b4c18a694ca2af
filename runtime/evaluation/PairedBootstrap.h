// The upper bound of a loss that was measured on samples: windows of texts, or items.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

namespace moert {

/// Fewer samples than these cannot tell.
constexpr size_t kMinimumBoundSamples = 10;

/// The loss of samples, named by their indices; one that was drawn twice stands there twice. Never
/// NaN; infinity where the loss is not defined.
using LossOfSamples = std::function<double(std::span<const uint32_t> samples)>;

/// The one-sided upper bound with 95% confidence: 2,000 resamples with replacement, as many samples
/// from each stratum as it has, and of their losses in ascending order the 1,900th. Artifact and
/// reference see the same resample, so what is difficult for both cancels. strata[i] is sample i's;
/// equal ones are consecutive. Random numbers have a fixed seed: the same losses give the same
/// bound.
///
/// looks: of how many bounds all have to hold at once (a search that stops at the first one within
/// its target has looked at each). Each then gets the confidence 1 - 0.05 / looks (Bonferroni);
/// resamples grow with the looks, so that there are always 100 above the bound.
///
/// Nothing with fewer than kMinimumBoundSamples, and where the bound is infinite.
std::optional<double> upperBound95(std::span<const uint32_t> strata, const LossOfSamples &lossOf,
                                   uint32_t looks = 1);

/// Bytes that upperBound95() needs, strata included.
uint64_t boundMemoryBytes(size_t samples, uint32_t looks);

} // namespace moert
