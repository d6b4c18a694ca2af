#include "compiler/search/TestForecast.h"

#include "runtime/evaluation/NormalQuantile.h"
#include "runtime/evaluation/UnitSpread.h"

#include <algorithm>
#include <cmath>
#include <vector>

using namespace moert;

namespace moec {

// An acceptance test has other units, so both the search's loss and the test's have an error. The
// bound's expected distance from the loss follows from the test's confidence and number of units.
TestForecast forecastMeanBound(double loss, double bound95, double unitRatio, double confidence) {
  constexpr double kErrorsAt95 = 1.6448536269514722;
  const double error = std::max(bound95 - loss, 0.0) / kErrorsAt95;
  TestForecast forecast{loss + error * std::sqrt(unitRatio) * upperNormalQuantile(confidence), {}};
  if (forecast.bound > 0)
    forecast.spread = error * std::sqrt(1 + unitRatio) / forecast.bound;
  return forecast;
}

static double quantileOf(std::span<const double> ascending, double probability) {
  const double last = static_cast<double>(ascending.size() - 1);
  const double place = std::clamp(probability * (last + 2) - 1, 0.0, last);
  const auto below = std::min(static_cast<size_t>(place), ascending.size() - 2);
  return std::lerp(ascending[below], ascending[below + 1], place - static_cast<double>(below));
}

// The test's bound is its unit of a certain rank, near a higher quantile of the population; the
// search's units estimate that one. Both numbers of units give the rank an error.
TestForecast forecastQuantileBound(std::span<const double> losses, double fraction,
                                   uint64_t acceptanceUnits, double confidence) {
  std::vector<double> ascending(losses.begin(), losses.end());
  std::sort(ascending.begin(), ascending.end());
  const auto units = static_cast<double>(acceptanceUnits);
  const uint64_t rank =
      quantileRank(acceptanceUnits, fraction, confidence).value_or(acceptanceUnits);
  const double probability = static_cast<double>(rank) / (units + 1);
  TestForecast forecast{quantileOf(ascending, probability), {}};
  const double error = std::sqrt(probability * (1 - probability) *
                                 (1 / units + 1 / static_cast<double>(ascending.size())));
  const double reach =
      quantileOf(ascending, probability + error) - quantileOf(ascending, probability - error);
  if (forecast.bound > 0)
    forecast.spread = reach / 2 / forecast.bound;
  return forecast;
}

TestForecast forecastTest(const AcceptanceTarget &target, const TestForecast &mean,
                          std::span<const SampleScore> samples, LossMetric metric,
                          uint64_t acceptanceUnits, double confidence) {
  if (!target.quantile)
    return mean;
  TestForecast quantile = forecastQuantileBound(
      unitLosses(samples, metric), target.quantile->fraction, acceptanceUnits, confidence);
  quantile.bound *= target.scale() / target.quantile->loss;
  return target.mean && mean.bound >= quantile.bound ? mean : quantile;
}

} // namespace moec
