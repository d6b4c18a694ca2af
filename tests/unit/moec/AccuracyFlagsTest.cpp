#include "tools/moec/AccuracyFlags.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moec::cli;
using namespace moert;

static void checkRefused(const std::string &text, LossMetric metric, const std::string &mention) {
  INFO(text);
  Status status = parseLoss(text, metric).status();
  CHECK(status.code() == StatusCode::kInvalidInput);
  CHECK_MESSAGE(status.message().find("--accuracy-loss " + text) != std::string::npos,
                status.message());
  CHECK_MESSAGE(status.message().find(mention) != std::string::npos, status.message());
}

TEST_CASE("a loss is a percentage or a fraction") {
  for (LossMetric metric : {LossMetric::kPerplexity, LossMetric::kTop1}) {
    CHECK(parseLoss("2%", metric).value() == 0.02);
    CHECK(parseLoss("0.5%", metric).value() == 0.005);
    CHECK(parseLoss("0.02", metric).value() == 0.02);
    CHECK(parseLoss("150%", metric).value() == 1.5);
  }
}

TEST_CASE("a loss of KL is nats") {
  CHECK(parseLoss("0.05", LossMetric::kKl).value() == 0.05);
  CHECK(parseLoss("2", LossMetric::kKl).value() == 2);
}

TEST_CASE("a percentage of nats is refused") {
  checkRefused("2%", LossMetric::kKl, "nats per token");
}

TEST_CASE("a number that looks like a percentage is refused, and the percentage is suggested") {
  checkRefused("2", LossMetric::kPerplexity, "expected 2%");
  checkRefused("1", LossMetric::kPerplexity, "expected 1%");
}

TEST_CASE("zero, negative, too large and malformed losses are refused") {
  for (const char *text : {"0", "0%", "-1%", "-0.02", "two", "", "%", "2%%", "2 %", " 2%", "+2%",
                           "nan", "inf", "1e9%", "1e999%"})
    checkRefused(text, LossMetric::kPerplexity, "expected a percentage above 0");
  for (const char *text : {"0", "-1", "many", "101", "nan"})
    checkRefused(text, LossMetric::kKl, "expected a number such as 0.05");
}

TEST_CASE("methods and solvers of the command line reach the request") {
  const std::pair<const char *, QuantizeMethod> kMethods[] = {
      {"auto", QuantizeMethod::kGptq},
      {"nearest", QuantizeMethod::kNearest},
      {"per-channel", QuantizeMethod::kPerChannel},
      {"clipped", QuantizeMethod::kClipped},
      {"weighted", QuantizeMethod::kWeighted},
      {"hqq", QuantizeMethod::kHqq},
      {"gptq", QuantizeMethod::kGptq}};
  for (auto [word, method] : kMethods) {
    AccuracyFlags flags;
    AccurateCompileRequest request;
    flags.quantizer = word;
    REQUIRE(takeAccuracyFlags(flags, request).isOk());
    CHECK(request.method == method);
  }
  const std::pair<const char *, SolverChoice> kSolvers[] = {{"auto", SolverChoice::kAuto},
                                                            {"mckp", SolverChoice::kKnapsack},
                                                            {"edgemoe", SolverChoice::kEdgeMoe},
                                                            {"uniform", SolverChoice::kUniform}};
  for (auto [word, solver] : kSolvers) {
    AccuracyFlags flags;
    AccurateCompileRequest request;
    flags.solver = word;
    REQUIRE(takeAccuracyFlags(flags, request).isOk());
    CHECK(request.solver == solver);
  }
}

static AccuracyFlags flagsOf(const std::string &metric) {
  AccuracyFlags flags;
  flags.loss = "2%";
  flags.metric = metric;
  return flags;
}

TEST_CASE("item options reach the request") {
  AccurateCompileRequest request;
  AccuracyFlags flags = flagsOf("choice");
  flags.choiceBy = "text";
  REQUIRE(takeAccuracyFlags(flags, request).isOk());
  CHECK(request.choiceBy == ChoiceBy::kText);
  CHECK(request.answers.maxTokens == AnswerOptions().maxTokens);
  flags = flagsOf("exact");
  flags.maxTokens = 7;
  flags.stopTexts = {"\n"};
  flags.answerAfter = "####";
  REQUIRE(takeAccuracyFlags(flags, request).isOk());
  CHECK(request.answers.maxTokens == 7);
  CHECK(request.answers.stopTexts == std::vector<std::string>{"\n"});
  CHECK(request.answers.answerAfter == "####");
}

TEST_CASE("item options that do not apply to the metric are refused") {
  std::vector<AccuracyFlags> unused = {flagsOf("exact"), flagsOf("choice"), flagsOf("top1"),
                                       flagsOf("rouge2")};
  unused[0].choiceBy = "letter";
  unused[1].maxTokens = 128;
  unused[2].stopTexts = {"x"};
  unused[3].answerAfter = "x";
  for (const AccuracyFlags &flags : unused) {
    AccurateCompileRequest request;
    Status status = takeAccuracyFlags(flags, request);
    CHECK(status.code() == StatusCode::kInvalidInput);
    CHECK(status.message().find("does not apply to --metric " + flags.metric) != std::string::npos);
  }
}

TEST_CASE("only rounding to nearest works without calibration") {
  AccuracyFlags flags;
  CHECK(!flags.isAsked());
  flags.quantizer = "nearest";
  CHECK(!flags.isAsked());
  flags.quantizer = "hqq";
  CHECK(flags.isAsked());
  flags = {};
  flags.loss = "2%";
  CHECK(flags.isAsked());
}

TEST_CASE("messages name the given option that needs calibration") {
  AccuracyFlags flags;
  CHECK(flags.askedBy().empty());
  flags.calibrationTexts = {"text"};
  CHECK(flags.askedBy() == "--calibration-text");
  flags.quantizer = "clipped";
  CHECK(flags.askedBy() == "--quantizer clipped");
  flags.loss = "2%";
  CHECK(flags.askedBy() == "--accuracy-loss");
}

TEST_CASE("a quantile is a fraction of the documents and what each of them may lose") {
  CHECK(parseQuantile("90%:3%", LossMetric::kPerplexity).value() == QuantileLoss{0.9, 0.03});
  CHECK(parseQuantile("0.95:0.02", LossMetric::kTop1).value() == QuantileLoss{0.95, 0.02});
  CHECK(parseQuantile("90%:0.05", LossMetric::kKl).value() == QuantileLoss{0.9, 0.05});
  for (const char *text : {"", "90%", "90%:", ":3%", "0%:3%", "100%:3%", "90:3%", "-5%:3%", "90%3%",
                           "x%:3%", "90%:-3%", "90%:3%:1", "90%:3"}) {
    const Status status = parseQuantile(text, LossMetric::kPerplexity).status();
    CHECK_MESSAGE(status.code() == StatusCode::kInvalidInput, text);
    CHECK_MESSAGE(status.message().find("--accuracy-quantile ") == 0, status.message());
  }
  CHECK_FALSE(parseQuantile("90%:5%", LossMetric::kKl).isOk()); // KL is in nats.
}
