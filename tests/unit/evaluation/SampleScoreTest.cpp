#include "runtime/evaluation/SampleScore.h"

#include <doctest/doctest.h>

#include <cmath>
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

TEST_CASE("the loss of items is the share of the reference's points that is gone") {
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
  CHECK_FALSE(lossUpperBound95(items, LossMetric::kExact));
  CHECK(*valueOf(sumOf(items), LossMetric::kExact) == 1);
  CHECK(*referenceValueOf(sumOf(items), LossMetric::kExact) == 0);
}

TEST_CASE("items are resampled in pairs: what both models get wrong widens no bound") {
  // Every item that the reference knows the artifact knows half: the loss of any resample is 1/2.
  std::vector<SampleScore> items;
  for (uint32_t i = 0; i < 60; ++i)
    items.push_back(i % 3 ? itemOf(i / 30, 0.5, 1) : itemOf(i / 30, 0, 0));
  CHECK(*lossUpperBound95(items, LossMetric::kRouge2) == doctest::Approx(0.5));
}

TEST_CASE("the bound of items is the normal one where they are many") {
  // The reference knows all of 400, the artifact 90%: loss 0.1, deviation sqrt(0.09 / 400).
  std::vector<SampleScore> items;
  for (uint32_t i = 0; i < 400; ++i)
    items.push_back(itemOf(0, i % 10 ? 1 : 0, 1));
  CHECK(*lossUpperBound95(items, LossMetric::kChoice) ==
        doctest::Approx(0.1 + 1.645 * 0.015).epsilon(0.05));
}

TEST_CASE("items of which none lost anything bound the loss by how many they are") {
  // With 59 items of which one in twenty were lost, all are kept 4.8% of the time.
  std::vector<SampleScore> items(59, itemOf(0, 1, 1));
  CHECK(leastBound95(items) == doctest::Approx(0.0495).epsilon(0.01));
  CHECK(*lossUpperBound95(items, LossMetric::kChoice) == leastBound95(items));
  CHECK(leastBound95(items, 3) == doctest::Approx(1 - std::pow(0.05 / 3, 1.0 / 59)));
  CHECK(*lossUpperBound95(items, LossMetric::kExact, 3) == leastBound95(items, 3));
  // What the reference gets wrong can lose nothing, and shows nothing.
  items.resize(200, itemOf(0, 0, 0));
  CHECK(leastBound95(items) == leastBound95(std::span(items).first(59)));
  CHECK(leastBound95(std::span(items).last(100)) == 1);
}

TEST_CASE("a reference that knows one item of many has no bound") {
  std::vector<SampleScore> items(30, itemOf(0, 0, 0));
  items[7] = itemOf(0, 1, 1);
  CHECK(*lossOf(sumOf(items), LossMetric::kChoice) == 0);
  CHECK_FALSE(lossUpperBound95(items, LossMetric::kChoice)); // A third of the resamples misses it.
}

TEST_CASE("every metric has a name that reads back, and others are refused") {
  for (LossMetric metric : {LossMetric::kPerplexity, LossMetric::kKl, LossMetric::kTop1,
                            LossMetric::kChoice, LossMetric::kRouge2, LossMetric::kExact})
    CHECK(parseMetric(metricName(metric)) == metric);
  CHECK_FALSE(parseMetric("ppl"));
}
