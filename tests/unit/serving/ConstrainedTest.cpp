// Answers in a format: what they are drawn from, and how they end where it cannot be followed.
#include "runtime/grammar/JsonSchema.h"
#include "tests/unit/serving/ServingFixture.h"

#include <doctest/doctest.h>
#include <limits>
#include <nlohmann/json.hpp>

using namespace moert;
using namespace moert::test;

namespace {

/// Every other token is a digit, which begins an integer; the rest are letters.
TokenTexts digitsAndLetters() {
  std::vector<std::string> texts;
  for (uint32_t token = 0; token < kVocabulary; ++token)
    texts.emplace_back(token % 2 == 0 ? "1" : "x");
  return TokenTexts(texts);
}

AnswerRequest integerRequest(const TokenTexts &texts) {
  AnswerRequest request = requestOf(kPrompt, 1);
  request.grammar = std::make_shared<const Grammar>(
      grammarOfSchema(nlohmann::ordered_json::parse(R"({"type": "integer"})")).value());
  request.tokenTexts = &texts;
  return request;
}

} // namespace

TEST_CASE("top-k, top-p and min-p cut the tokens that the format allows, and no others") {
  ServedModel model(servingOptions(1));
  auto session = model.loaded.engine->createSession(32).value();
  Recorder recorder;
  REQUIRE(model.loaded.engine->prefill({session.get(), kPrompt}, recorder).isOk());
  std::vector<float> masked = recorder.logits;
  REQUIRE(masked.size() == kVocabulary);
  for (size_t token = 1; token < masked.size(); token += 2)
    masked[token] = -std::numeric_limits<float>::infinity();
  session.reset();
  const TokenTexts texts = digitsAndLetters();
  for (int cut = 0; cut < 3; ++cut) {
    CAPTURE(cut);
    AnswerRequest request = integerRequest(texts);
    request.sampling.temperature = 1;
    request.sampling.topK = cut == 0 ? 4 : 0;
    request.sampling.topP = cut == 1 ? 0.5f : 1;
    request.sampling.minP = cut == 2 ? 0.3f : 0;
    for (uint64_t seed = 0; seed < 32; ++seed) {
      CAPTURE(seed);
      request.sampling.seed = seed;
      Sampler sampler = Sampler::create(request.sampling, kVocabulary).value();
      sampler.addPrompt(kPrompt);
      CHECK(model.alone(request).tokens == std::vector<int32_t>{sampler.sample(masked).value()});
    }
  }
}

TEST_CASE("a format that cannot be followed ends its sequence as the request's fault") {
  ServedModel model(servingOptions(1));
  const TokenTexts letters(std::vector<std::string>(kVocabulary, "x"));
  const Served served = model.alone(integerRequest(letters));
  CHECK(served.end == AnswerEnd::kRejected);
  CHECK(served.message ==
        "after token 17: no token of the vocabulary continues the text as its format requires");
}

TEST_CASE("the tokens of a hard format are found beside the steps of other sequences") {
  // A clock by which a step takes no time, so that one part of the search follows each.
  static uint64_t now = 0;
  const Clock clock = [] { return ++now; };
  std::vector<std::string> longTexts;
  for (uint32_t token = 0; token < kVocabulary; ++token)
    longTexts.push_back(strCat("\"", token, std::string(1000, 'x')));
  const TokenTexts texts(longTexts);
  AnswerRequest hard = requestOf(kPrompt, 1);
  hard.grammar = std::make_shared<const Grammar>(
      grammarOfSchema(nlohmann::ordered_json::parse(R"({"type": "string"})")).value());
  hard.tokenTexts = &texts;
  hard.sampling.temperature = 1;
  hard.sampling.topK = 3;
  hard.topScores = 2;
  ServedModel model(servingOptions(2));
  Scheduler scheduler(*model.loaded.engine, {2, 0, 128}, clock);
  const auto constrained = model.add(scheduler, hard);
  const auto other = model.add(scheduler, requestOf({1, 2, 3}, 40));
  Served first, second;
  while (!first.end) {
    REQUIRE(scheduler.step());
    takeInto(first, *constrained);
    takeInto(second, *other);
  }
  CHECK(second.tokens.size() > 10);
  CHECK(first.end == AnswerEnd::kLength);
  const Served alone = model.alone(hard);
  CHECK(first.tokens == alone.tokens);
  REQUIRE(first.scores.size() == 1);
  CHECK(first.scores[0].logProbability == alone.scores[0].logProbability);
}
