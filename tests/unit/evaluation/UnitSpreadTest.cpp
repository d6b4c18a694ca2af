#include "runtime/evaluation/UnitSpread.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace moert;

static SampleScore windowOf(uint32_t text, uint32_t unit, double kl) {
  SampleScore score;
  score.text = text;
  score.unit = unit;
  score.tokens = 10;
  score.lossNats = 20 + kl;
  score.referenceLossNats = 20;
  score.klNats = kl;
  return score;
}

TEST_CASE("a unit is consecutive samples of the same text and unit") {
  CHECK(unitCount({}) == 0);
  CHECK(unitCountOfWindows({}) == 0);
  CHECK(unitCountOfWindows(std::vector<uint32_t>{0, 0, 1, 3, 3}) == 3);
  const std::vector<SampleScore> samples = {windowOf(0, 0, 1), windowOf(0, 0, 1), windowOf(0, 1, 1),
                                            windowOf(1, 1, 1), windowOf(1, 2, 1)};
  CHECK(unitCount(samples) == 4);
}

TEST_CASE("the spread is the standard deviation of what units lose, in the metric's unit") {
  // Per token: 0.1 and 0.3 in one unit, 0.4 in another; 0.2 and 0.4 have a mean of 0.3.
  const std::vector<SampleScore> samples = {windowOf(0, 0, 1), windowOf(0, 0, 3),
                                            windowOf(0, 1, 4)};
  CHECK(*unitSpread(samples, LossMetric::kKl) == doctest::Approx(std::sqrt(0.02)));
  const double low = std::exp(0.2), high = std::exp(0.4);
  CHECK(*unitSpread(samples, LossMetric::kPerplexity) ==
        doctest::Approx((high - low) / std::sqrt(2.0)));
}

TEST_CASE("equal units have a spread of zero, and a single unit has none") {
  std::vector<SampleScore> samples(6, windowOf(0, 0, 2));
  CHECK_FALSE(unitSpread(samples, LossMetric::kKl));
  for (uint32_t i = 0; i < 6; ++i)
    samples[i].unit = i;
  CHECK(*unitSpread(samples, LossMetric::kKl) == doctest::Approx(0));
}

TEST_CASE("items spread by the points that one loses of the reference's mean") {
  std::vector<SampleScore> items(4);
  const double points[] = {1, 0, 0, 1}, reference[] = {1, 1, 0, 0};
  for (uint32_t i = 0; i < 4; ++i) {
    items[i].unit = i;
    items[i].items = 1;
    items[i].points = points[i];
    items[i].referencePoints = reference[i];
  }
  // Lost: 0, 1, 0, -1, in parts of the mean 1/2: 0, 2, 0, -2 with a mean of 0, the loss.
  CHECK(*unitSpread(items, LossMetric::kChoice) == doctest::Approx(std::sqrt(8.0 / 3)));
  for (SampleScore &item : items)
    item.referencePoints = 0;
  CHECK_FALSE(unitSpread(items, LossMetric::kChoice));
}
