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
      grammarOfSchema(nlohmann::ordered_json::parse(R"({"type": "integer"})")).value().grammar);
  request.tokenTexts = &texts;
  return request;
}

/// Passes the logits of a step on to one sequence.
struct LogitsOf : StepObserver {
  Sequence &sequence;

  explicit LogitsOf(Sequence &stepped) : sequence(stepped) {}
  Status onLogits(Session &, uint32_t position, std::span<const float> logits) override {
    sequence.takeLogits(position, logits);
    return {};
  }
};

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
      grammarOfSchema(nlohmann::ordered_json::parse(R"({"type": "string"})")).value().grammar);
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
  // One step of the other sequence for each part of the search at least.
  TokenConstraint constraint(hard.grammar, texts, model.loaded.model->artifact().model.eosTokens);
  size_t parts = 1;
  while (!constraint.findAllowed(Scheduler::kChoosingSteps).value())
    ++parts;
  REQUIRE(parts > 10);
  REQUIRE(parts < 40); // The other sequence lasts longer.
  CHECK(second.tokens.size() >= parts);
  CHECK(first.end == AnswerEnd::kLength);
  const Served alone = model.alone(hard);
  CHECK(first.tokens == alone.tokens);
  REQUIRE(first.scores.size() == 1);
  CHECK(first.scores[0].logProbability == alone.scores[0].logProbability);
}

TEST_CASE(
    "a sequence interrupted between a token that is not allowed and an allowed one goes on the "
    "same") {
  ServedModel model(servingOptions(1));
  const TokenTexts texts = digitsAndLetters();
  AnswerRequest request = integerRequest(texts);
  request.maxTokens = 4;
  request.sampling.temperature = 1;
  uint32_t interruptions = 0;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    CAPTURE(seed);
    request.sampling.seed = seed;
    const Served expected = model.alone(request);
    const auto answer = std::make_shared<Answer>(); // Shared as in a server.
    const std::unique_ptr<Sequence> sequence =
        Sequence::create(*model.loaded.model, request, answer).value();
    auto renew = [&] {
      sequence->releaseSession();
      REQUIRE(sequence->begin(model.loaded.engine->createSession(32).value()).isOk());
    };
    renew();
    LogitsOf observer(*sequence);
    std::vector<float> scratch;
    std::optional<AnswerEnd> end;
    for (bool isRenewed = false; !end;) {
      const SessionTokens part = sequence->part(8);
      REQUIRE(model.loaded.engine->step({&part, 1}, observer).isOk());
      if (sequence->isChoosing() && !isRenewed) {
        renew();
        isRenewed = true;
        ++interruptions;
        continue;
      }
      if (sequence->isChoosing())
        isRenewed = false;
      while (sequence->isChoosing())
        sequence->choose(Scheduler::kChoosingSteps, scratch);
      end = sequence->finishStep();
    }
    Served served;
    takeInto(served, *answer);
    CHECK(served.tokens == expected.tokens);
  }
  CHECK(interruptions > 16);
}
