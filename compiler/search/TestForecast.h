// What an acceptance test is expected to find, from the losses on the search's own text.
#pragma once

#include "compiler/search/AcceptanceTarget.h"
#include "runtime/evaluation/SampleScore.h"

#include <cstdint>
#include <optional>
#include <span>

namespace moec {

struct TestForecast {
  double bound = 0;             // Expected upper bound.
  std::optional<double> spread; // Its standard error, relative to it; absent for a bound of 0.
};

/// A test's bound of the mean. bound95: of the search's loss at 95%. unitRatio: the search's units
/// over the test's.
TestForecast forecastMeanBound(double loss, double bound95, double unitRatio, double confidence);

/// A test's bound of the quantile on so many units, from the losses of the search's units, at least
/// two. Units: at least leastUnitsOfQuantile().
TestForecast forecastQuantileBound(std::span<const double> losses, double fraction,
                                   uint64_t acceptanceUnits, double confidence);

/// The forecast of whichever test is nearer to failing; a quantile's is in proportion to the
/// target's scale(). `mean`: forecastMeanBound().
TestForecast forecastTest(const AcceptanceTarget &target, const TestForecast &mean,
                          std::span<const moert::SampleScore> samples, moert::LossMetric metric,
                          uint64_t acceptanceUnits, double confidence);

} // namespace moec
