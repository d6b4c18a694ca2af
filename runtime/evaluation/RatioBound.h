// A one-sided upper confidence bound of a ratio of two means, from units that were drawn
// independently. docs/accuracy.md derives it and has its coverage.
//
// The units get random weights of mean 1, exponentially distributed (the Bayesian bootstrap). One
// unit that nobody has seen is added: it loses more than the worst one that was seen. The bound is
// the quantile of the weighted ratio. A saddlepoint formula gives it without random numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace moert {

/// Fewer units have no bound.
constexpr size_t kMinimumBoundUnits = 20;

/// What was measured on one unit, for the ratio sum of totals / sum of sizes.
struct RatioUnit {
  uint32_t stratum = 0; // Equal ones are consecutive.
  double total = 0;
  double size = 0; // At least 0.
};

/// The upper bound of the ratio in the population that the units of each stratum were drawn from,
/// each stratum with the fraction of the whole that its units' sizes have. Confidence: 0.9 to
/// 0.9999. largestRatio: of any one unit, where it is known. Never below the units' own ratio.
/// Nothing with fewer than kMinimumBoundUnits, and where the sizes add up to 0.
std::optional<double> ratioUpperBound(std::span<const RatioUnit> units, double confidence,
                                      std::optional<double> largestRatio = {});

/// Bytes that ratioUpperBound() allocates for so many units.
uint64_t ratioBoundMemoryBytes(size_t units);

} // namespace moert
