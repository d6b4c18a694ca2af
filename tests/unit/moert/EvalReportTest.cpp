#include "tools/moert/EvalReport.h"

#include <doctest/doctest.h>

#include <cmath>

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

TEST_CASE("losses that the artifact carries are stated with the windows that they are of") {
  // Of 14 windows the first text's 12 have one: 22 nats instead of 20 in 10 tokens.
  RecordedLoss recorded = {std::vector<SampleScore>(12, SampleScore{0, 0, 10, 22, 20, 0, 0}), 3};
  std::vector<SampleScore> windows(12, SampleScore{0, 0, 10, 22, 0, 0, 0});
  windows.resize(14, SampleScore{1, 0, 10, 30, 0, 0, 0});
  std::string text =
      reportText({LossMetric::kPerplexity, kTexts, windows, "windows", false, &recorded});
  // exp(2.2), exp(2) and exp(0.2) - 1.
  CHECK(text.find("a.txt      12       120        9.0250        7.3891   22.14%          12\n") !=
        std::string::npos);
  CHECK(text.find("b.txt       2        20       20.0855             -        -           0\n") !=
        std::string::npos);
  CHECK(text.find("loss (perplexity) 0.221403 on 12 of 14 windows, upper 95% bound 0.221403, "
                  "as one of 3 looks\n") != std::string::npos);
  CHECK(text.find("KL") == std::string::npos);
  recorded.samples.pop_back(); // Now the reference's value would be of other windows.
  text = reportText({LossMetric::kPerplexity, kTexts, windows, "windows", false, &recorded});
  CHECK(text.find("a.txt      12       120        9.0250             -   22.14%          11\n") !=
        std::string::npos);
}

TEST_CASE(
    "losses beside the points that an artifact carries are stated with the items they are of") {
  std::vector<SampleScore> items(12, SampleScore{0, 0, 0, 0, 0, 0, 0, 1, 0.5, 0});
  RecordedLoss recorded = {items, 1};
  for (SampleScore &item : recorded.samples)
    item.referencePoints = 1;
  items.resize(14, SampleScore{1, 0, 0, 0, 0, 0, 0, 1, 0, 0});
  std::string text = reportText({LossMetric::kExact, kTexts, items, "items", false, &recorded});
  CHECK(text.find("loss    of items\n") != std::string::npos);
  CHECK(text.find("a.txt      12         0        0.5000        1.0000   50.00%          12\n") !=
        std::string::npos);
  CHECK(text.find("loss (exact) 0.500000 on 12 of 14 items, upper 95% bound 0.500000\n") !=
        std::string::npos);
}

TEST_CASE("beside a reference the loss is stated, with its bound where windows are enough") {
  std::vector<SampleScore> windows(12, SampleScore{0, 0, 10, 22, 20, 1, 9});
  std::string text = reportText({LossMetric::kTop1, kTexts, windows, "windows", true});
  CHECK(text.find("loss (top1) 0.1") != std::string::npos);
  CHECK(text.find("upper 95% bound 0.1") != std::string::npos);
  windows.resize(2);
  text = reportText({LossMetric::kTop1, kTexts, windows, "windows", true});
  CHECK(text.find("no bound") != std::string::npos);
}
