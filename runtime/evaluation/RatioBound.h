// A one-sided upper confidence bound of a ratio of two means, from units that were drawn
// independently. docs/accuracy.md derives it and has its coverage.
//
// The units get random weights of mean 1, exponentially distributed (the Bayesian bootstrap). One
// unobserved unit is added, which loses more than the worst observed one. The bound is the quantile
// of the weighted ratio. A saddlepoint formula computes it without random numbers.
//
// No bound of a mean holds for every population. The assumption of this one: units that the sample
// lacks continue the tail that the sample shows, at most as a lognormal distribution with the
// skewness of the sample's middle. TailCheck says where that tail widens the bound. Losses that are
// rare and large without a trace in the sample are beyond the assumption; LossQuantile.h has a
// statement that needs none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace moert {

/// With fewer units there is no bound.
constexpr size_t kMinimumBoundUnits = 20;

/// The measurement of one unit, for the ratio sum of totals / sum of sizes.
struct RatioUnit {
  uint32_t stratum = 0; // Units of a stratum are consecutive.
  double total = 0;
  double size = 0; // At least 0.
};

/// What one unit contributes to the spread between units.
struct TailCheck {
  size_t unit = 0; // The one with the largest excess over the ratio of its stratum.
  double part = 0; // Its squared excess over the sum of all units, 0 to 1.
  /// What the unobserved unit's excess is multiplied by, since the part is larger than normal
  /// losses have and the middle of the sample is skewed; 1: not widened.
  double widening = 1;

  /// Whether people should know: the bound is much wider for the tail, or rests on one unit.
  bool isHeavy() const { return widening > 1.5 || part > 0.5; }
};

/// The tail that ratioUpperBound() is widened for. Units as there, at least kMinimumBoundUnits.
TailCheck checkTail(std::span<const RatioUnit> units);

/// The upper bound of the ratio in the population that the units of each stratum were drawn from,
/// each stratum with the fraction of the whole that its units' sizes have. Confidence: 0.9 to
/// 0.9999. largestRatio: the largest possible ratio of a unit, if known. Never below the units' own
/// ratio. nullopt with fewer than kMinimumBoundUnits units or if the sizes add up to 0.
std::optional<double> ratioUpperBound(std::span<const RatioUnit> units, double confidence,
                                      std::optional<double> largestRatio = {});

/// Bytes that ratioUpperBound() allocates for so many units.
uint64_t ratioBoundMemoryBytes(size_t units);

} // namespace moert
