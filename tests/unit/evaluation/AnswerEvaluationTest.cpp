#include "runtime/evaluation/AnswerEvaluation.h"

#include "tests/unit/evaluation/TableSource.h"
#include "tests/unit/tokenizer/TestTokenizers.h"

using namespace moert;

/// a b c d and a space, each a token; without a merge.
static LoadedTokenizer fiveTokens() {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}, {" ", 4}};
  json["model"]["merges"] = nlohmann::json::array();
  return load(json);
}

/// a is followed by b, b by a space, the space by c, c by d, d by d again.
static TableSource writer() {
  TableSource source;
  source.prefers = {
      {0, {{1, 2.0f}}}, {1, {{4, 2.0f}}}, {4, {{2, 2.0f}}}, {2, {{3, 2.0f}}}, {3, {{3, 2.0f}}}};
  return source;
}

static std::vector<int32_t> continued(const AnswerOptions &options, size_t enough = SIZE_MAX) {
  TableSource source = writer();
  std::vector<int32_t> taken;
  const std::vector<int32_t> prompt = {2, 0};
  auto take = [&](int32_t token) {
    taken.push_back(token);
    return taken.size() < enough;
  };
  CHECK(continueGreedily(source, prompt, options, take, nullptr).isOk());
  return taken;
}

TEST_CASE("the likeliest token is taken until there are as many as were asked for") {
  CHECK(continued({.maxTokens = 4}) == std::vector<int32_t>{1, 4, 2, 3});
  CHECK(continued({.maxTokens = 1}) == std::vector<int32_t>{1});
}

TEST_CASE("an end token ends the text and does not belong to it") {
  CHECK(continued({.maxTokens = 9, .endTokens = {2, 3}}) == std::vector<int32_t>{1, 4});
}

TEST_CASE("whoever takes the tokens can have enough") {
  CHECK(continued({.maxTokens = 9}, 3) == std::vector<int32_t>{1, 4, 2});
}

TEST_CASE("once stop is set the text ends as interrupted") {
  TableSource source = writer();
  std::atomic<bool> stop = true;
  const std::vector<int32_t> prompt = {0};
  CHECK(continueGreedily(
            source, prompt, {}, [](int32_t) { return true; }, &stop)
            .code() == StatusCode::kInterrupted);
}

static Result<std::vector<SampleScore>>
evaluateAnswers(const std::vector<EncodedAnswer> &items, LossMetric metric,
                const AnswerOptions &options, const Tokenizer &tokenizer, uint32_t stepTokens,
                LogitsSource &artifact, LogitsSource *reference) {
  const AnswerRun run = {metric, options, tokenizer, artifact, reference};
  return evaluateEach(
      items.size(), "item", stepTokens, artifact, reference, {}, nullptr,
      [&](uint64_t item, PairedPass &pass) { return evaluateAnswer(items[item], run, pass); });
}

static EncodedAnswer itemOf(const Tokenizer &tokenizer, std::vector<std::string> answers) {
  auto item = encodeAnswer({7, "a", std::move(answers)}, tokenizer);
  REQUIRE_MESSAGE(item.isOk(), item.status().message());
  return std::move(item).value();
}

TEST_CASE("each model's own text is scored, and KL is over prompt and first answer") {
  LoadedTokenizer loaded = fiveTokens();
  TableSource reference = writer(), artifact = writer();
  artifact.prefers[4] = {{0, 2.0f}}; // "b a" instead of "b c".
  const std::vector<EncodedAnswer> items = {itemOf(loaded.tokenizer, {"b c", "d"})};
  CHECK(items[0].line == 7);
  CHECK(items[0].longestTokens(3) == 4);
  CHECK(items[0].longestTokens(9) == 10);
  auto scores = evaluateAnswers(items, LossMetric::kExact, {.maxTokens = 3}, loaded.tokenizer, 2,
                                artifact, &reference);
  REQUIRE_MESSAGE(scores.isOk(), scores.status().message());
  const SampleScore score = (*scores)[0];
  CHECK(score.points == 0);
  CHECK(score.referencePoints == 1);
  CHECK(score.tokens == 3); // b, the space and c after a.
  CHECK(score.agreeing == 2);
}

TEST_CASE("ROUGE-2 is of the text up to a stop text") {
  LoadedTokenizer loaded = fiveTokens();
  TableSource artifact = writer();
  const std::vector<EncodedAnswer> items = {itemOf(loaded.tokenizer, {"b c"})};
  auto points = [&](std::vector<std::string> stops) {
    auto scores =
        evaluateAnswers(items, LossMetric::kRouge2, {.maxTokens = 5, .stopTexts = std::move(stops)},
                        loaded.tokenizer, 8, artifact, nullptr);
    REQUIRE_MESSAGE(scores.isOk(), scores.status().message());
    CHECK((*scores)[0].tokens == 0); // Alone there is nothing to compare.
    return (*scores)[0].points;
  };
  CHECK(points({}) == 0);     // "b cdd"
  CHECK(points({"dd"}) == 1); // "b c"
  CHECK(points({" c"}) == 0); // "b"
}

TEST_CASE("an error names the item") {
  LoadedTokenizer loaded = fiveTokens();
  TableSource artifact = writer();
  artifact.brokenToken = 4;
  const std::vector<EncodedAnswer> items = {itemOf(loaded.tokenizer, {"d"})};
  auto scores =
      evaluateAnswers(items, LossMetric::kExact, {}, loaded.tokenizer, 8, artifact, nullptr);
  CHECK(scores.status().message().find("item 1 of 1") != std::string::npos);
}

TEST_CASE("a stop text that is a special token ends what is scored") {
  nlohmann::json json = smallTokenizer();
  json["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}, {"<|im_end|>", 4}};
  json["model"]["merges"] = nlohmann::json::array();
  json["added_tokens"].push_back(addedToken(4, "<|im_end|>"));
  json["added_tokens"].back()["special"] = true;
  LoadedTokenizer loaded = load(json);
  TableSource artifact = writer(); // After a come b, <|im_end|>, c and d.
  const std::vector<EncodedAnswer> items = {itemOf(loaded.tokenizer, {"b"})};
  auto points = [&](std::vector<std::string> stops) {
    auto scores =
        evaluateAnswers(items, LossMetric::kExact, {.maxTokens = 5, .stopTexts = std::move(stops)},
                        loaded.tokenizer, 8, artifact, nullptr);
    REQUIRE_MESSAGE(scores.isOk(), scores.status().message());
    return (*scores)[0].points;
  };
  CHECK(points({}) == 0); // "bcdd"
  CHECK(points({"<|im_end|>"}) == 1);
  CHECK(points({"<|im_end|>c"}) == 1);
}
