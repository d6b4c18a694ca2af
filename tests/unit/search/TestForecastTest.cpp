#include "compiler/search/TestForecast.h"

#include "runtime/evaluation/NormalQuantile.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace moec;
using namespace moert;

TEST_CASE("a target is met if all that it names is") {
  const AcceptanceTarget mean{0.02, {}}, quantile{{}, QuantileLoss{0.9, 0.03}};
  const AcceptanceTarget both{0.02, QuantileLoss{0.9, 0.03}};
  CHECK(mean.isMetBy(0.02, std::nullopt));
  CHECK_FALSE(mean.isMetBy(0.021, 0.001));
  CHECK(quantile.isMetBy(5, 0.03));
  CHECK_FALSE(quantile.isMetBy(0.01, 0.031));
  CHECK_FALSE(quantile.isMetBy(0.01, std::nullopt)); // Too few units show nothing.
  CHECK(both.isMetBy(0.02, 0.03));
  CHECK_FALSE(both.isMetBy(0.021, 0.03));
  CHECK_FALSE(both.isMetBy(0.02, 0.031));
  CHECK(both.scale() == 0.02);
  CHECK(quantile.scale() == 0.03);
  CHECK(mean.fraction() == kReportedFraction);
}

TEST_CASE("the bound of a mean is expected at the test's own confidence and units") {
  // One standard error is 0.01; with a quarter of the units the test's is twice that.
  const double at95 = 1.6448536269514722;
  const TestForecast forecast = forecastMeanBound(0.1, 0.1 + 0.01 * at95, 4, 0.99);
  CHECK(forecast.bound == doctest::Approx(0.1 + 0.02 * upperNormalQuantile(0.99)));
  CHECK(*forecast.spread == doctest::Approx(0.01 * std::sqrt(5) / forecast.bound));
}

TEST_CASE(
    "the bound of a quantile is expected where the test's rank falls in the search's losses") {
  std::vector<double> losses;
  for (int i = 1; i <= 99; ++i)
    losses.push_back(i);
  // Rank 96 of 100 at 95%: 96 / 101 of the search's distribution, whose quantile p is 100 p.
  const TestForecast forecast = forecastQuantileBound(losses, 0.9, 100, 0.95);
  CHECK(forecast.bound == doctest::Approx(9600.0 / 101));
  CHECK(*forecast.spread > 0.02);
  CHECK(*forecast.spread < 0.05);
  // A higher confidence takes a higher rank.
  CHECK(forecastQuantileBound(losses, 0.9, 100, 0.9999).bound > forecast.bound);
}

TEST_CASE(
    "of two tests the one that is nearer to failing is forecast, in proportion to the mean's") {
  std::vector<SampleScore> samples;
  for (uint32_t i = 0; i < 99; ++i)
    samples.push_back({.unit = i, .tokens = 1, .klNats = 0.001 * (i + 1)});
  const TestForecast mean{0.05, 0.1};
  const double quantile = 9.6 / 101;
  auto forecastOf = [&](const AcceptanceTarget &target) {
    return forecastTest(target, mean, samples, LossMetric::kKl, 100, 0.95).bound;
  };
  CHECK(forecastOf({0.06, {}}) == 0.05);
  CHECK(forecastOf({{}, QuantileLoss{0.9, 0.06}}) == doctest::Approx(quantile));
  CHECK(forecastOf({0.06, QuantileLoss{0.9, 0.2}}) == 0.05);
  CHECK(forecastOf({0.06, QuantileLoss{0.9, 0.1}}) == doctest::Approx(quantile * 0.6));
}
