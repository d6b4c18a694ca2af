// Answers in a format: what they are drawn from, and how they end where it cannot be followed.
#include "runtime/text/grammar/JsonSchema.h"
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
  hard.sampling.topK = kVocabulary - 1; // All have to be looked at.
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
  const uint64_t steps = kVocabulary * uint64_t(1000);
  CHECK(second.tokens.size() >= steps / Scheduler::kChoosingSteps - 5);
  CHECK(first.end == AnswerEnd::kLength);
  const Served alone = model.alone(hard);
  CHECK(first.tokens == alone.tokens);
  REQUIRE(first.scores.size() == 1);
  CHECK(first.scores[0].logProbability == alone.scores[0].logProbability);
}

namespace {

/// After each of 40 bytes there are 900 ways to go on, which are other ones: the states after all
/// of them are more than an automaton has room for.
std::shared_ptr<const Grammar> grammarOfManyWays() {
  Grammar grammar; // Shared by the request and its matcher.
  const uint32_t text = grammar.addRule(), ways = grammar.addRule();
  for (int way = 0; way < 900; ++way) {
    Grammar::Sequence sequence;
    grammar.appendText(sequence, strCat("a", way));
    grammar.addAlternative(ways, sequence);
  }
  for (char byte = 'A'; byte < 'A' + 40; ++byte) {
    Grammar::Sequence sequence;
    grammar.appendText(sequence, std::string(1, byte));
    sequence.push_back(Grammar::ruleOf(ways));
    grammar.appendText(sequence, std::string(1, byte));
    grammar.addAlternative(text, sequence);
  }
  return std::make_shared<const Grammar>(std::move(grammar));
}

} // namespace

TEST_CASE("each part of a choice comes nearer to its token, whatever may come next") {
  std::vector<std::string> bytes;
  for (uint32_t token = 0; token < kVocabulary; ++token)
    bytes.emplace_back(1, static_cast<char>('A' + token % 40));
  const TokenTexts texts(bytes);
  AnswerRequest request = requestOf(kPrompt, 1);
  request.grammar = grammarOfManyWays();
  request.tokenTexts = &texts;
  request.sampling.temperature = 1;
  request.sampling.topK = kVocabulary - 1; // All have to be looked at.
  ServedModel model(servingOptions(1));
  const auto answer = std::make_shared<Answer>(); // Shared as in a server.
  SharedChoices choices;
  const auto sequence = Sequence::create(*model.loaded.model, request, answer).value();
  REQUIRE(sequence->begin(model.loaded.engine->createSession(32).value(), choices).isOk());
  LogitsOf observer(*sequence);
  while (sequence->isPrefilling() && !sequence->isChoosing()) {
    const SessionTokens part = sequence->part(8);
    REQUIRE(model.loaded.engine->step({&part, 1}, observer).isOk());
  }
  uint32_t parts = 0;
  for (; sequence->isChoosing() && parts <= kVocabulary; ++parts)
    sequence->choose(1);
  CHECK(parts <= kVocabulary);
  CHECK(parts > 1);
  CHECK(sequence->finishStep() == AnswerEnd::kLength);
}

TEST_CASE("a sequence interrupted while its token is chosen goes on the same") {
  ServedModel model(servingOptions(1));
  // The begin of a string, and long parts of one, every other of which has a byte that none has.
  std::vector<std::string> longTexts = {"", "\""};
  while (longTexts.size() < kVocabulary)
    longTexts.push_back(std::string(2000, 'x') + (longTexts.size() % 2 == 0 ? "" : "\x01"));
  const TokenTexts texts(longTexts);
  AnswerRequest request = requestOf(kPrompt, 4);
  request.grammar = std::make_shared<const Grammar>(
      grammarOfSchema(nlohmann::ordered_json::parse(R"({"type": "string"})")).value().grammar);
  request.tokenTexts = &texts;
  uint32_t interruptions = 0;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    CAPTURE(seed);
    request.sampling.seed = seed;
    request.sampling.temperature = 1;
    request.sampling.topP = seed % 2 == 0 ? 1 : 0.9f;
    const Served expected = model.alone(request);
    CHECK(expected.message == "");
    CHECK(expected.tokens.size() > 1);
    const auto answer = std::make_shared<Answer>(); // Shared as in a server.
    SharedChoices choices;
    const std::unique_ptr<Sequence> sequence =
        Sequence::create(*model.loaded.model, request, answer).value();
    auto renew = [&] {
      sequence->releaseSession();
      REQUIRE(sequence->begin(model.loaded.engine->createSession(32).value(), choices).isOk());
    };
    renew();
    LogitsOf observer(*sequence);
    std::optional<AnswerEnd> end;
    for (bool isRenewed = false; !end;) {
      const SessionTokens part = sequence->part(8);
      REQUIRE(model.loaded.engine->step({&part, 1}, observer).isOk());
      if (sequence->isChoosing() && !isRenewed) {
        sequence->choose(Scheduler::kChoosingSteps);
        renew();
        isRenewed = true;
        ++interruptions;
        continue;
      }
      if (sequence->isChoosing())
        isRenewed = false;
      while (sequence->isChoosing())
        sequence->choose(Scheduler::kChoosingSteps);
      end = sequence->finishStep();
    }
    Served served;
    takeInto(served, *answer);
    CHECK(served.tokens == expected.tokens);
  }
  CHECK(interruptions > 16);
}

namespace {

/// An object of 5 integers, whose names are forced once they have begun.
std::string namedIntegers() {
  std::string fields, names;
  for (int i = 0; i < 5; ++i) {
    const std::string name = strCat(i > 0 ? "," : "", "\"name", i, "\"");
    fields += name + R"(: {"enum": [1, 2]})";
    names += name;
  }
  return R"({"type": "object", "additionalProperties": false, "properties": {)" + fields +
         R"(}, "required": [)" + names + "]}";
}

} // namespace

TEST_CASE("tokens of a text that the format forces are computed at once, and are the same") {
  // In the first vocabulary a name is tokens in one way, in the other in many.
  std::vector<std::string> whole = {"", "{", "}", "\"", ":", ",", " ", "name"}, parts = whole;
  for (int i = 0; i < 5; ++i)
    for (auto *texts : {&parts, &whole})
      texts->push_back(strCat(i));
  for (const char *part : {"n", "a", "m", "e", "na", "me", "\":", "ame", ", \""})
    parts.emplace_back(part);
  AnswerRequest request = requestOf(kPrompt, 46);
  request.grammar = std::make_shared<const Grammar>(
      grammarOfSchema(nlohmann::ordered_json::parse(namedIntegers())).value().grammar);
  EngineOptions options = servingOptions(1);
  auto served = [&](uint32_t chunk) {
    options.prefillChunk = chunk;
    ServedModel model(options);
    Scheduler scheduler(*model.loaded.engine, {1, 0, 64});
    const auto answer = model.add(scheduler, request);
    while (scheduler.step()) {
    }
    Served result;
    takeInto(result, *answer);
    return std::pair(result, scheduler.numbers().steps);
  };
  for (auto *texts : {&whole, &parts}) {
    texts->resize(kVocabulary);
    const TokenTexts tokenTexts(*texts);
    request.tokenTexts = &tokenTexts;
    for (int way = 0; way < 4; ++way) {
      CAPTURE(way);
      request.sampling.temperature = way == 0 ? 0 : 1;
      request.sampling.topP = way == 2 ? 0.9f : 1;
      request.sampling.presencePenalty = way == 3 ? 1 : 0;
      request.topScores = way == 1 ? std::optional<uint32_t>(2) : std::nullopt;
      const Served expected = served(1).first; // Without room for tokens ahead.
      const auto [result, steps] = served(16);
      CHECK(result.end == expected.end);
      CHECK(result.tokens == expected.tokens);
      REQUIRE(result.scores.size() == expected.scores.size());
      for (size_t i = 0; i < result.scores.size(); ++i)
        CHECK(result.scores[i].logProbability == expected.scores[i].logProbability);
      // Two for the prompt, whose last one has the first token.
      const uint64_t single = 1 + result.tokens.size();
      CHECK(steps < single);
      if (texts == &whole)
        CHECK(steps * 13 < single * 10);
      MESSAGE(steps, " steps for ", result.tokens.size(), " tokens");
    }
  }
}

TEST_CASE("with recurrent states, which cannot go back, forced tokens are computed one by one") {
  std::vector<std::string> texts = {"", "{", "}", "\"", ":", ",", " ", "name"};
  for (int i = 0; i < 5; ++i)
    texts.push_back(strCat(i));
  texts.resize(kVocabulary);
  const TokenTexts tokenTexts(texts);
  AnswerRequest request = requestOf(kPrompt, 46);
  request.grammar = std::make_shared<const Grammar>(
      grammarOfSchema(nlohmann::ordered_json::parse(namedIntegers())).value().grammar);
  request.tokenTexts = &tokenTexts;
  SyntheticOptions states;
  states.hasStates = true;
  EngineOptions options = servingOptions(1);
  options.prefillChunk = 32; // Room for the prompt, and for tokens ahead.
  ServedModel model(options, states);
  Scheduler scheduler(*model.loaded.engine, {1, 0, 64});
  const auto answer = model.add(scheduler, request);
  while (scheduler.step()) {
  }
  Served served;
  takeInto(served, *answer);
  CHECK(served.message == "");
  CHECK(served.tokens.size() > 20);
  CHECK(scheduler.numbers().steps == served.tokens.size()); // The prompt's has the first one.
}
