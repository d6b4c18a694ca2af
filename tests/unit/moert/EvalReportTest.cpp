#include "tools/moert/EvalReport.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moert;
using namespace moert::cli;

static const std::vector<std::string> kTexts = {"a.txt", "b.txt"};

TEST_CASE("the table has a line per text and one for all") {
  std::vector<SampleScore> windows = {{0, 10, 10 * std::log(4.0), 0, 0, 0},
                                      {1, 10, 10 * std::log(16.0), 0, 0, 0}};
  std::string text = reportText({LossMetric::kPerplexity, kTexts, windows, "windows", false});
  CHECK(text.find("a.txt") != std::string::npos);
  CHECK(text.find("4.0000") != std::string::npos);
  CHECK(text.find("16.0000") != std::string::npos);
  CHECK(text.find(" 8.0000") != std::string::npos); // exp of the mean over all tokens.
  CHECK(text.find("reference") == std::string::npos);
}

TEST_CASE("beside a reference the loss is stated, with its bound where windows are enough") {
  std::vector<SampleScore> windows(12, SampleScore{0, 10, 22, 20, 1, 9});
  std::string text = reportText({LossMetric::kTop1, kTexts, windows, "windows", true});
  CHECK(text.find("loss (top1) 0.1") != std::string::npos);
  CHECK(text.find("upper 95% bound 0.1") != std::string::npos);
  windows.resize(2);
  text = reportText({LossMetric::kTop1, kTexts, windows, "windows", true});
  CHECK(text.find("no bound") != std::string::npos);
}
