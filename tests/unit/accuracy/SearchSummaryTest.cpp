#include "compiler/accuracy/SearchSummary.h"

#include <doctest/doctest.h>

#include <vector>

using namespace moec;
using namespace moert;

static std::vector<SampleScore> itemsOf(size_t known, size_t unknown) {
  SampleScore item;
  item.items = 1;
  item.tokens = 10;
  item.klNats = 0.5;
  item.agreeing = 9;
  item.points = item.referencePoints = 1;
  std::vector<SampleScore> items(known, item);
  item.points = item.referencePoints = 0;
  items.resize(known + unknown, item);
  return items;
}

TEST_CASE("losses are shares, and nats of KL") {
  CHECK(formatLoss(0.0204, LossMetric::kChoice) == "2.04%");
  CHECK(formatLoss(0.00001, LossMetric::kPerplexity) == "0.001%");
  CHECK(formatLoss(-0.01, LossMetric::kExact) == "-1.00%");
  CHECK(formatLoss(0.0512, LossMetric::kKl) == "0.0512 nats");
}

TEST_CASE("too few items for a target are said, enough are not") {
  const std::vector<SampleScore> items = itemsOf(40, 60);
  CHECK(itemsText(items, LossMetric::kChoice, 0.02) ==
        "; 100 items, of which the reference has points in 40, can show no loss below 9.73%: more "
        "are needed");
  CHECK(itemsText(items, LossMetric::kChoice, 0.1).empty());
}

TEST_CASE("windows are not to blame for a target out of reach") {
  CHECK(itemsText(itemsOf(0, 100), LossMetric::kPerplexity, 0.02).empty());
}

TEST_CASE("what was accepted on items is said with both models' points") {
  WidthSearchOutcome outcome;
  outcome.looks = 2;
  outcome.acceptance.loss = 0.0125;
  outcome.acceptance.upperBound = 0.1;
  const SampleScore sum = sumOf(itemsOf(40, 60));
  CHECK(acceptedText(outcome, sum, 100, LossMetric::kExact) ==
        "exact loss 1.25%, at most 10.00% with 95% confidence, as one of 3 acceptance tests\n(100 items that "
        "nothing else has seen); 0.4000 beside the reference's 0.4000, KL 0.0500 nats, top-1 "
        "agreement "
        "90.00%");
  CHECK(
      acceptedText(outcome, sum, 100, LossMetric::kPerplexity) ==
      "perplexity loss 1.25%, at most 10.00% with 95% confidence, as one of 3 acceptance tests\n(100 windows "
      "that nothing else has seen); KL 0.0500 nats, top-1 agreement 90.00%");
}
