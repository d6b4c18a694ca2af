#include "runtime/evaluation/ChoiceEvaluation.h"

#include "tests/unit/evaluation/TableSource.h"
#include "tests/unit/tokenizer/TestTokenizers.h"

#include <cmath>

using namespace moert;

static EncodedChoice itemOf(std::vector<std::vector<int32_t>> choices, uint32_t answer) {
  return {0, 1, {0, 1}, std::move(choices), answer};
}

static Result<std::vector<SampleScore>> evaluateChoices(const std::vector<EncodedChoice> &items,
                                                        uint32_t stepTokens, LogitsSource &artifact,
                                                        LogitsSource *reference) {
  return evaluateEach(
      items.size(), "item", stepTokens, artifact, reference, {}, nullptr,
      [&](uint64_t item, PairedPass &pass) { return evaluateChoice(items[item], pass); });
}

TEST_CASE("the choice with the most likely token after the question is the answer") {
  TableSource source;
  source.prefers[1] = {{2, 3.0f}, {4, 2.0f}};
  const std::vector<EncodedChoice> items = {itemOf({{3}, {2}, {4}}, 1), itemOf({{3}, {2}, {4}}, 2)};
  auto scores = evaluateChoices(items, 8, source, nullptr);
  REQUIRE(scores.isOk());
  CHECK((*scores)[0].points == 1);
  CHECK((*scores)[1].points == 0);
  CHECK(source.resets == 2); // One pass each.
  CHECK(*valueOf(sumOf(*scores), LossMetric::kChoice) == 0.5);
}

TEST_CASE("a longer choice is worth the product of its tokens' probabilities") {
  TableSource source;
  // 2 is more likely than 3 after the question, but the next token of 2's choice is less likely.
  source.prefers[1] = {{2, 1.0f}};
  source.prefers[2] = {{0, 4.0f}};
  source.prefers[3] = {{4, 4.0f}};
  for (uint32_t answer : {0u, 1u}) {
    const std::vector<EncodedChoice> items = {itemOf({{2, 4}, {3, 4}}, answer)};
    for (uint32_t step : {1u, 3u, 8u}) {
      auto scores = evaluateChoices(items, step, source, nullptr);
      REQUIRE(scores.isOk());
      CHECK((*scores)[0].points == (answer == 1));
    }
  }
}

TEST_CASE("among equally likely choices the first one is the answer") {
  TableSource source;
  const std::vector<EncodedChoice> items = {itemOf({{2}, {3}}, 0), itemOf({{2}, {3}}, 1)};
  auto scores = evaluateChoices(items, 8, source, nullptr);
  CHECK((*scores)[0].points == 1);
  CHECK((*scores)[1].points == 0);
}

TEST_CASE("beside a reference both answer, and KL is over question and right choice") {
  TableSource source, reference;
  reference.prefers[1] = {{2, 3.0f}};
  source.prefers[1] = {{3, 3.0f}};
  const std::vector<EncodedChoice> items = {itemOf({{2}, {3}}, 0)};
  auto scores = evaluateChoices(items, 2, source, &reference);
  REQUIRE(scores.isOk());
  const SampleScore score = (*scores)[0];
  CHECK(score.items == 1);
  CHECK(score.points == 0);
  CHECK(score.referencePoints == 1);
  CHECK(score.tokens == 2); // Behind token 0 the models are alike, behind token 1 they are not.
  CHECK(score.agreeing == 1);
  const double sum = std::exp(3.0) + 4;
  CHECK(score.klNats == doctest::Approx(3 * (std::exp(3.0) - 1) / sum));
  CHECK(*lossOf(score, LossMetric::kChoice) == 1);
}

TEST_CASE("an error names the item") {
  TableSource source;
  source.brokenToken = 1;
  const std::vector<EncodedChoice> items = {itemOf({{2}, {3}}, 0)};
  auto scores = evaluateChoices(items, 8, source, nullptr);
  CHECK(scores.status().message().find("item 1 of 1") != std::string::npos);
}

static const ChoiceItem kItem = {1, "high_school", " Which?\n", {"x", "y z"}, 1};

TEST_CASE("the prompt by letter lists the choices, the one by text does not") {
  const std::string head =
      "The following are multiple choice questions (with answers) about high school.\n\n";
  CHECK(choicePrompt(kItem, ChoiceBy::kLetter) == head + "Which?\nA. x\nB. y z\nAnswer:");
  CHECK(choicePrompt(kItem, ChoiceBy::kText) == head + "Question: Which?\nAnswer:");
  ChoiceItem plain = kItem;
  plain.subject.clear();
  CHECK(choicePrompt(plain, ChoiceBy::kText) == "Question: Which?\nAnswer:");
}

/// Characters, and ": A" as a token that reaches from prompt into choice.
static nlohmann::json letters() {
  nlohmann::json json = smallTokenizer(), vocabulary;
  for (char c = ' '; c < 127; ++c)
    vocabulary[std::string(1, c)] = c;
  vocabulary["\n"] = 10;
  json["model"]["vocab"] = vocabulary;
  json["model"]["merges"] = nlohmann::json::array();
  return json;
}

TEST_CASE("question and choice are the tokens of both together") {
  const ChoiceItem item = {1, "", "Q", {"xy", "z"}, 1};
  LoadedTokenizer loaded = load(letters());
  auto encoded = encodeChoice(item, ChoiceBy::kText, loaded.tokenizer);
  REQUIRE_MESSAGE(encoded.isOk(), encoded.status().message());
  CHECK(encoded->question == loaded.encode("Question: Q\nAnswer:"));
  CHECK(encoded->choices[0] == std::vector<int32_t>{' ', 'x', 'y'});
  CHECK(encoded->choices[1] == std::vector<int32_t>{' ', 'z'});
  CHECK(encoded->answer == 1);
  CHECK(encoded->longestTokens() == encoded->question.size() + 3);
}

TEST_CASE("where a choice changes the question's last token, scoring begins with that token") {
  nlohmann::json json = letters();
  json["model"]["vocab"][": "] = 200;
  json["model"]["merges"] = {": "};
  json["model"]["merges"] = nlohmann::json::parse(R"([[":", " "]])");
  LoadedTokenizer loaded = load(json);
  const ChoiceItem item = {1, "", "Q", {"x", "z"}, 1};
  auto encoded = encodeChoice(item, ChoiceBy::kText, loaded.tokenizer);
  REQUIRE_MESSAGE(encoded.isOk(), encoded.status().message());
  std::vector<int32_t> question = loaded.encode("Question: Q\nAnswer:");
  question.pop_back();
  CHECK(encoded->question == question);
  CHECK(encoded->choices[0] == std::vector<int32_t>{200, 'x'});
}
