#include "tools/moert/EvalReport.h"

#include "runtime/evaluation/LossBound.h"
#include "runtime/evaluation/UnitSpread.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <span>

using namespace moert;
using namespace moert::cli;

static const std::vector<std::string> kTexts = {"a.txt", "b.txt"};

TEST_CASE("the table has a line per text and one for all") {
  std::vector<SampleScore> windows = {{0, 0, 10, 10 * std::log(4.0), 0, 0, 0},
                                      {1, 0, 10, 10 * std::log(16.0), 0, 0, 0}};
  std::string text = reportText({LossMetric::kPerplexity, kTexts, windows, "windows", false});
  CHECK(text.find("a.txt") != std::string::npos);
  CHECK(text.find("4.0000") != std::string::npos);
  CHECK(text.find("16.0000") != std::string::npos);
  CHECK(text.find(" 8.0000") != std::string::npos); // exp of the mean over all tokens.
  CHECK(text.find("reference") == std::string::npos);
}

static std::string boundText(std::span<const SampleScore> samples, LossMetric metric,
                             double confidence) {
  char text[160];
  std::snprintf(
      text, sizeof text,
      ", at most %.6f with %.2f%% confidence; %zu units with a standard deviation of %.6f",
      *lossUpperBound(samples, metric, confidence), confidence * 100, samples.size(),
      *unitSpread(samples, metric));
  return text;
}

/// Each of them a document, or an item, of its own.
static std::vector<SampleScore> documents(uint32_t count, SampleScore score) {
  std::vector<SampleScore> scores;
  for (score.unit = 0; score.unit < count; ++score.unit)
    scores.push_back(score);
  return scores;
}

TEST_CASE("losses that the artifact carries are stated with the windows that they are of") {
  // Of 52 windows the first text's 50 have one: 22 nats instead of 20 in 10 tokens.
  RecordedLoss recorded = {documents(50, {0, 0, 10, 22, 20, 0, 0}), 0.98};
  std::vector<SampleScore> windows = documents(50, {0, 0, 10, 22, 0, 0, 0});
  windows.resize(52, SampleScore{1, 0, 10, 30, 0, 0, 0});
  std::string text =
      reportText({LossMetric::kPerplexity, kTexts, windows, "windows", false, &recorded});
  // exp(2.2), exp(2) and exp(0.2) - 1.
  CHECK(text.find("a.txt      50       500        9.0250        7.3891   22.14%          50\n") !=
        std::string::npos);
  CHECK(text.find("b.txt       2        20       20.0855             -        -           0\n") !=
        std::string::npos);
  // The bound that the artifact was accepted with.
  CHECK(text.find(strCat("loss (perplexity) 0.221403 on 50 of 52 windows",
                         boundText(recorded.samples, LossMetric::kPerplexity, 0.98), "\n")) !=
        std::string::npos);
  CHECK(text.find("KL") == std::string::npos);
  recorded.samples.pop_back(); // Now the reference's value would be for other windows.
  text = reportText({LossMetric::kPerplexity, kTexts, windows, "windows", false, &recorded});
  CHECK(text.find("a.txt      50       500        9.0250             -   22.14%          49\n") !=
        std::string::npos);
}

TEST_CASE(
    "losses beside the points that an artifact carries are stated with the items they are of") {
  std::vector<SampleScore> items = documents(22, {0, 0, 0, 0, 0, 0, 0, 1, 0.5, 0});
  RecordedLoss recorded = {items, 0.95};
  for (SampleScore &item : recorded.samples)
    item.referencePoints = 1;
  items.resize(24, SampleScore{1, 0, 0, 0, 0, 0, 0, 1, 0, 0});
  std::string text = reportText({LossMetric::kExact, kTexts, items, "items", false, &recorded});
  CHECK(text.find("loss    of items\n") != std::string::npos);
  CHECK(text.find("a.txt      22         0        0.5000        1.0000   50.00%          22\n") !=
        std::string::npos);
  CHECK(text.find(strCat("loss (exact) 0.500000 on 22 of 24 items",
                         boundText(recorded.samples, LossMetric::kExact, 0.95), "\n")) !=
        std::string::npos);
}

TEST_CASE("beside a reference the loss is stated, with its bound where documents are enough") {
  std::vector<SampleScore> windows = documents(20, {0, 0, 10, 22, 20, 1, 9});
  std::string text = reportText({LossMetric::kTop1, kTexts, windows, "windows", true});
  CHECK(text.find(strCat("loss (top1) 0.100000", boundText(windows, LossMetric::kTop1, 0.95),
                         "\n")) != std::string::npos);
  // As many windows, but of 19 documents.
  windows.back().unit = 18;
  text = reportText({LossMetric::kTop1, kTexts, windows, "windows", true});
  CHECK(text.find("no bound: it takes 20 documents or more, not longer documents\n") !=
        std::string::npos);
}

TEST_CASE("beside the bound is what most documents lose at most, or how many documents it takes") {
  std::vector<SampleScore> windows = documents(29, {0, 0, 10, 22, 20, 1, 9});
  std::string text = reportText({LossMetric::kTop1, kTexts, windows, "windows", true});
  CHECK(text.find("at least 90% of units lose at most 0.100000 each, with 95.00% confidence") !=
        std::string::npos);
  CHECK(text.find("heavy") == std::string::npos);
  windows.pop_back();
  text = reportText({LossMetric::kTop1, kTexts, windows, "windows", true});
  CHECK(text.find("no statement about 90% of units: with 95.00% confidence it takes 29 units or "
                  "more\n") != std::string::npos);
}

TEST_CASE("a document that decides the bound is named") {
  std::vector<SampleScore> windows = documents(40, {1, 0, 10, 22, 20, 1, 9});
  for (uint32_t i = 0; i < 40; ++i)
    windows[i].klNats = i == 12 ? 900 : std::exp(0.5 * (i % 8));
  const std::string text = reportText({LossMetric::kKl, kTexts, windows, "windows", true});
  CHECK(text.find("heavy tail: unit 13 of b.txt loses 90.000000, 9") != std::string::npos);
}
