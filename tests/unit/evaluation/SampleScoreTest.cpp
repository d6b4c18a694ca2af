#include "runtime/evaluation/SampleScore.h"

#include <doctest/doctest.h>

#include <vector>

using namespace moert;

static SampleScore itemOf(uint32_t text, double points, double referencePoints) {
  SampleScore score;
  score.text = text;
  score.items = 1;
  score.points = points;
  score.referencePoints = referencePoints;
  return score;
}

TEST_CASE("the loss of items is the fraction of the reference's points that is lost") {
  const std::vector<SampleScore> items = {itemOf(0, 1, 1), itemOf(0, 0, 1), itemOf(0, 0.5, 0),
                                          itemOf(0, 0, 0)};
  const SampleScore sum = sumOf(items);
  for (LossMetric metric : {LossMetric::kChoice, LossMetric::kRouge2, LossMetric::kExact}) {
    CHECK(*valueOf(sum, metric) == 1.5 / 4);
    CHECK(*referenceValueOf(sum, metric) == 0.5);
    CHECK(*lossOf(sum, metric) == 0.25);
  }
}

TEST_CASE("where the reference has no points the loss is not defined, but the values are") {
  const std::vector<SampleScore> items(20, itemOf(0, 1, 0));
  CHECK_FALSE(lossOf(sumOf(items), LossMetric::kExact));
  CHECK(*valueOf(sumOf(items), LossMetric::kExact) == 1);
  CHECK(*referenceValueOf(sumOf(items), LossMetric::kExact) == 0);
}

TEST_CASE("every metric has a name that reads back, and others are refused") {
  for (LossMetric metric : {LossMetric::kPerplexity, LossMetric::kKl, LossMetric::kTop1,
                            LossMetric::kChoice, LossMetric::kRouge2, LossMetric::kExact})
    CHECK(parseMetric(metricName(metric)) == metric);
  CHECK_FALSE(parseMetric("ppl"));
}
