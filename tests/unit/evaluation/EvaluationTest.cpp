#include "runtime/evaluation/Evaluation.h"
#include "runtime/evaluation/EvaluationSet.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

using namespace moert;

namespace {

constexpr uint32_t kVocabulary = 5;

/// Gives every token but the last one's successor a logit of 0 and that one `gain`; notes what it
/// was asked for.
class SuccessorSource : public LogitsSource {
public:
  explicit SuccessorSource(float logitOfSuccessor) : gain(logitOfSuccessor) {}

  uint32_t vocabularySize() const override { return vocabulary; }
  void reset() override {
    length = 0;
    ++resets;
  }
  Status beginUnit() override {
    unitsBegin.push_back(resets);
    return {};
  }
  Status append(std::span<const int32_t> tokens, const TakeRow &takeRow) override {
    largestStep = std::max(largestStep, tokens.size());
    for (uint32_t i = 0; i < tokens.size(); ++i, ++length) {
      if (!takeRow)
        continue;
      std::vector<float> row(vocabulary);
      row[static_cast<size_t>(tokens[i] + 1) % vocabulary] = gain;
      if (length == brokenAt)
        row[0] = std::nanf("");
      ++rows;
      MOERT_RETURN_IF_ERROR(takeRow(i, row));
    }
    return {};
  }

  float gain;
  uint32_t vocabulary = kVocabulary;
  uint64_t length = 0, brokenAt = UINT64_MAX;
  size_t resets = 0, rows = 0, largestStep = 0;
  std::vector<size_t> unitsBegin; // With so many sequences before.
};

/// 0 1 2 3 4 0 1 2 ...: every token follows its predecessor.
TextWindows counting(size_t tokens, uint32_t windowTokens) {
  std::vector<int32_t> text(tokens);
  for (size_t i = 0; i < tokens; ++i)
    text[i] = static_cast<int32_t>(i % kVocabulary);
  return cutWindows(std::vector<std::vector<int32_t>>{text}, {}, windowTokens);
}

/// -log of the successor's probability.
double lossOfGain(double gain) {
  return std::log(std::exp(gain) + kVocabulary - 1) - gain;
}

SampleScore scoreOf(uint32_t text, uint64_t tokens, double loss, double reference, double kl,
                    uint64_t agreeing) {
  return {text, 0, tokens, loss, reference, kl, agreeing};
}

} // namespace

TEST_CASE("each unit is begun before its first window, and no other") {
  std::vector<TextWindows> texts = {counting(20, 10), counting(30, 10)};
  texts[1].units = {0, 0, 1};
  SuccessorSource source(1);
  EvaluationOptions options;
  options.windowTokens = 10;
  REQUIRE(evaluate(texts, options, source, nullptr).isOk());
  CHECK(source.unitsBegin == std::vector<size_t>{0, 2, 4});
}

TEST_CASE("steps hold 32 MiB of a reference's rows, but at least a whole chunk") {
  constexpr uint32_t kLargeVocabulary = 1 << 17; // Rows of 512 KiB.
  CHECK(stepTokensOf(512, kLargeVocabulary, true, 1) == 64);
  CHECK(stepTokensOf(512, kLargeVocabulary, true, 48) == 48);
  CHECK(stepTokensOf(512, kLargeVocabulary, true, 24) == 48);
  CHECK(stepTokensOf(512, kLargeVocabulary, true, 100) == 100);
  CHECK(stepTokensOf(80, kLargeVocabulary, true, 100) == 80);
  CHECK(stepTokensOf(512, kLargeVocabulary, false, 100) == 512);
}

TEST_CASE("windows do not overlap, their first tokens are not scored, a rest is left out") {
  SuccessorSource source(2);
  std::vector<TextWindows> texts = {counting(35, 10), counting(9, 10), counting(20, 10)};
  auto windows = evaluate(texts, {.windowTokens = 10, .stepTokens = 4}, source, nullptr);
  REQUIRE(windows.isOk());
  REQUIRE(windows->size() == 5);
  CHECK(source.resets == 5);
  for (const SampleScore &window : *windows) {
    CHECK(window.tokens == 9);
    CHECK(window.lossNats == doctest::Approx(9 * lossOfGain(2)));
  }
  CHECK((*windows)[2].text == 0);
  CHECK((*windows)[3].text == 2);
  CHECK((*windows)[2].unit == 0); // All windows of a document are one unit.
  CHECK(sumOf(*windows).perplexity() == doctest::Approx(std::exp(lossOfGain(2))));
}

TEST_CASE("scoring starts where it was asked to and earlier logits are not computed") {
  SuccessorSource source(1);
  std::vector<TextWindows> texts = {counting(12, 12)};
  auto windows =
      evaluate(texts, {.windowTokens = 12, .scoreFrom = 8, .stepTokens = 4}, source, nullptr);
  REQUIRE(windows.isOk());
  CHECK((*windows)[0].tokens == 4);
  CHECK(source.rows == 8); // Steps 4..7, whose last row predicts token 8, and 8..11.
}

TEST_CASE("from half a window and one on as many tokens are scored as llama-perplexity scores") {
  // It takes the logits after the tokens n/2 to n - 2: n - 1 - n/2 of them.
  SuccessorSource source(1);
  std::vector<TextWindows> texts = {counting(1024, 512)};
  auto windows =
      evaluate(texts, {.windowTokens = 512, .scoreFrom = 257, .stepTokens = 512}, source, nullptr);
  REQUIRE(windows.isOk());
  CHECK((*windows)[0].tokens == 512 - 1 - 512 / 2);
  CHECK((*windows)[1].tokens == 512 - 1 - 512 / 2);
}

TEST_CASE("steps change nothing but how much is appended at a time") {
  std::vector<TextWindows> texts = {counting(64, 32)};
  std::vector<double> losses;
  for (uint32_t step : {1u, 3u, 16u, 64u}) {
    SuccessorSource source(1.5f), reference(2);
    auto windows = evaluate(texts, {.windowTokens = 32, .stepTokens = step}, source, &reference);
    REQUIRE(windows.isOk());
    CHECK(source.largestStep <= step);
    CHECK(reference.largestStep <= step);
    losses.push_back(sumOf(*windows).lossNats + sumOf(*windows).klNats);
  }
  CHECK(losses == std::vector<double>(4, losses[0]));
}

TEST_CASE("beside a reference the losses of both, their divergence and agreement are measured") {
  SuccessorSource source(1), reference(3);
  std::vector<TextWindows> texts = {counting(20, 10)};
  auto windows = evaluate(texts, {.windowTokens = 10, .stepTokens = 3}, source, &reference);
  REQUIRE(windows.isOk());
  SampleScore sum = sumOf(*windows);
  double p = std::exp(3) / (std::exp(3) + 4), q = std::exp(1) / (std::exp(1) + 4);
  double kl = p * std::log(p / q) + (1 - p) * std::log((1 - p) / (1 - q));
  CHECK(sum.kl() == doctest::Approx(kl));
  CHECK(sum.agreement() == 1);
  CHECK(sum.referencePerplexity() == doctest::Approx(1 / p));
  CHECK(*lossOf(sum, LossMetric::kPerplexity) == doctest::Approx(p / q - 1));
  CHECK(*lossOf(sum, LossMetric::kKl) == doctest::Approx(kl));
  CHECK(*lossOf(sum, LossMetric::kTop1) == 0);
}

TEST_CASE("an artifact that answers otherwise does not agree") {
  SuccessorSource source(-1), reference(1);
  std::vector<TextWindows> texts = {counting(10, 10)};
  auto windows = evaluate(texts, {.windowTokens = 10, .stepTokens = 10}, source, &reference);
  CHECK(sumOf(*windows).agreement() == 0);
  CHECK(*lossOf(sumOf(*windows), LossMetric::kTop1) == 1);
}

TEST_CASE("the sum of one text leaves the others out") {
  std::vector<SampleScore> windows = {scoreOf(0, 10, 20, 0, 0, 0), scoreOf(1, 10, 30, 0, 0, 0)};
  CHECK(sumOf(windows, 1).lossNats == 30);
  CHECK(sumOf(windows).lossNats == 50);
}

TEST_CASE("an error names the window") {
  SuccessorSource source(1);
  source.brokenAt = 4;
  std::vector<TextWindows> texts = {counting(20, 10)};
  auto windows = evaluate(texts, {.windowTokens = 10, .stepTokens = 5}, source, nullptr);
  CHECK(windows.status().code() == StatusCode::kInvalidInput);
  CHECK(windows.status().message().find("window 1 of 2: after token 4") != std::string::npos);
}

TEST_CASE("windows that cannot be scored and vocabularies that differ are refused") {
  CHECK(checkEvaluation({.windowTokens = 1}).code() == StatusCode::kInvalidInput);
  CHECK(checkEvaluation({.windowTokens = 8, .scoreFrom = 0}).code() == StatusCode::kInvalidInput);
  CHECK(checkEvaluation({.windowTokens = 8, .scoreFrom = 8}).code() == StatusCode::kInvalidInput);
  CHECK(checkEvaluation({.windowTokens = 8, .scoreFrom = 7}).isOk());
  SuccessorSource source(1), reference(1);
  reference.vocabulary = 6;
  CHECK(evaluate({}, {.windowTokens = 8}, source, &reference).status().code() ==
        StatusCode::kInvalidInput);
}

TEST_CASE("once stop is set the evaluation ends as interrupted") {
  SuccessorSource source(1);
  std::atomic<bool> stop = true;
  std::vector<TextWindows> texts = {counting(20, 10)};
  CHECK(evaluate(texts, {.windowTokens = 10}, source, nullptr, {}, &stop).status().code() ==
        StatusCode::kInterrupted);
}

TEST_CASE("nothing scored has no value and no loss") {
  CHECK_FALSE(valueOf({}, LossMetric::kPerplexity));
  CHECK_FALSE(referenceValueOf({}, LossMetric::kTop1));
  CHECK_FALSE(lossOf({}, LossMetric::kKl));
}
