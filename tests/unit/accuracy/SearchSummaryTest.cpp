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
  for (uint32_t i = 0; i < items.size(); ++i)
    items[i].unit = i;
  return items;
}

TEST_CASE("losses are shown as percentages, and KL in nats") {
  CHECK(formatLoss(0.0204, LossMetric::kChoice) == "2.04%");
  CHECK(formatLoss(0.00001, LossMetric::kPerplexity) == "0.001%");
  CHECK(formatLoss(-0.01, LossMetric::kExact) == "-1.00%");
  CHECK(formatLoss(0.0512, LossMetric::kKl) == "0.0512 nats");
}

TEST_CASE("a large loss is shown whole, and one that was cut off as such") {
  CHECK(formatLoss(656, LossMetric::kPerplexity) == "65600.00%");
  CHECK(formatLoss(kMostLoss, LossMetric::kPerplexity) == "1e+11% or more");
  CHECK(formatLoss(kMostLoss, LossMetric::kKl) == "1e+09 nats or more");
}

TEST_CASE("a search on few windows is explained with what helps") {
  CHECK(fewWindowsText(13, "a larger --self-text") ==
        "the search has 13 windows, and a bound takes 20: widths are ordered by their divergence "
        "(KL) on them, without an expected bound; a larger --self-text helps");
}

static AcceptanceScores found(std::vector<SampleScore> samples) {
  return {std::move(samples), 0.964, 0.0125, 0.018};
}

TEST_CASE("a confidence is shown with the digits in which levels differ") {
  CHECK(formatConfidence(0.964) == "96.4%");
  CHECK(formatConfidence(0.99985) == "99.985%");
}

TEST_CASE("too few items for a target are reported, enough are not") {
  const AcceptanceScores items = found(itemsOf(40, 60));
  CHECK(itemsText(items, LossMetric::kChoice, 0.02) ==
        "; 100 items, of which the reference has points in 40, can show no loss below 7.97%: more "
        "are needed");
  CHECK(itemsText(items, LossMetric::kChoice, 0.1).empty());
}

TEST_CASE("for windows, nothing is added to a target out of reach") {
  CHECK(itemsText(found(itemsOf(0, 100)), LossMetric::kPerplexity, 0.02).empty());
}

TEST_CASE(
    "the accepted loss is reported with the target, the test's bound, units and their spread") {
  const AcceptanceScores items = found(itemsOf(40, 60));
  for (const char *part :
       {"accepted: exact loss of at most 2.00% with 95% confidence",
        "measured: 1.25%, at most 1.80%", "96.4% confidence",
        "100 items, with 0.4000 beside the reference's 0.4000", "standard deviation between items",
        "KL 0.0500 nats", "top-1 agreement 90.00%"})
    CHECK_MESSAGE(acceptedText(items, {0.02, {}}, {}, LossMetric::kExact).find(part) !=
                      std::string::npos,
                  part);
  const std::string text = acceptedText(items, {0.02, {}}, 300, LossMetric::kPerplexity);
  for (const char *part :
       {"perplexity loss of at most 2.00%", "100 units of 300 documents in 100 windows"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, "\n", text);
  CHECK(text.find("KL") == std::string::npos); // Its tests have no rows of the reference.
}

TEST_CASE("beside the bound is what most units lose at most, or how many units that takes") {
  AcceptanceScores documents = found(itemsOf(40, 60));
  documents.quantileBound = 0.031;
  const AcceptanceTarget target{{}, QuantileLoss{0.95, 0.04}};
  std::string text = acceptedText(documents, target, 300, LossMetric::kPerplexity);
  for (const char *part :
       {"accepted: at least 95% of units lose at most 4.00% each in perplexity with 95% confidence",
        "without an assumption on the tail: at least 95% of units lose at most 3.10% each"})
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, "\n", text);
  documents.quantileBound.reset();
  text = acceptedText(documents, {0.02, {}}, 300, LossMetric::kPerplexity);
  CHECK(text.find("nothing about 90% of units, which takes 32 units") != std::string::npos);
  CHECK(acceptedText(documents, {0.02, {}}, {}, LossMetric::kExact).find("assumption") ==
        std::string::npos);
}
