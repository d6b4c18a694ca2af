#include "runtime/grammar/TokenConstraint.h"
#include "runtime/grammar/JsonSchema.h"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace moert;

namespace {

constexpr int32_t kEnd = 0;

/// Token 0 has no text and ends texts.
const std::vector<std::string> kTexts = {
    "",   "{",  "}", "{\"", "\"a\"", "\"",   "a\":", ":",    " ",    "1",
    "12", "1}", ",", "x",   "a",     "\xC3", "\xA9", "{\"a", "\":1", "{}"};

std::shared_ptr<const Grammar> grammarOf(const char *schema) {
  return std::make_shared<const Grammar>(
      grammarOfSchema(nlohmann::ordered_json::parse(schema)).value().grammar);
}

/// Steps for all that there is to do.
constexpr uint64_t kAllSteps = uint64_t(1) << 60;

std::vector<int32_t> allowedOf(TokenConstraint &constraint) {
  std::vector<float> logits(kTexts.size(), 1);
  REQUIRE(constraint.findAllowed(kAllSteps).value());
  const bool isAny = constraint.mask(logits).isOk();
  std::vector<int32_t> allowed;
  for (size_t token = 0; token < logits.size(); ++token) {
    if (logits[token] == 1)
      allowed.push_back(static_cast<int32_t>(token));
    CHECK((logits[token] == 1) == constraint.allows(static_cast<int32_t>(token)));
  }
  CHECK(isAny == !allowed.empty());
  return allowed;
}

/// Token 0 ends texts; the next ones are the printable characters, and then words, some of them
/// with JSON's characters, as a vocabulary of source code has.
std::vector<std::string> largeVocabulary(size_t tokens) {
  std::vector<std::string> texts = {""};
  for (char c = ' '; c <= '~'; ++c)
    texts.emplace_back(1, c);
  const std::string_view parts[] = {"a",  "in",  "th", "e",  " s",       "name", "\": \"", "\", \"",
                                    "12", "{\"", "[[", "]}", "\xC3\xA9", "\\n",  "    ",   "\n"};
  for (size_t i = 0; texts.size() < tokens; ++i) {
    std::string text;
    for (size_t rest = i; text.empty() || rest > 0; rest /= 16)
      text += parts[rest % 16];
    texts.push_back(std::move(text));
  }
  return texts;
}

} // namespace

TEST_CASE("exactly the tokens whose bytes fit are allowed, at each place") {
  const TokenTexts texts(kTexts);
  TokenConstraint constraint(
      grammarOf(R"({"type": "object", "properties": {"a": {"type": "integer"}},
                    "required": ["a"], "additionalProperties": false})"),
      texts, {kEnd});
  CHECK(allowedOf(constraint) == std::vector<int32_t>{1, 3, 17}); // { {" {"a
  constraint.take(3);
  CHECK(allowedOf(constraint) == std::vector<int32_t>{6, 14}); // a": a
  constraint.take(6);
  CHECK(allowedOf(constraint) == std::vector<int32_t>{8, 9, 10, 11}); // space 1 12 1}
  constraint.take(9);
  CHECK(allowedOf(constraint) == std::vector<int32_t>{2, 8, 9, 10, 11});
  CHECK_FALSE(constraint.hasEnded());
  constraint.take(2);
  CHECK(constraint.hasEnded());
  CHECK(allowedOf(constraint) == std::vector<int32_t>{kEnd});
}

TEST_CASE("an end token is allowed where the text may end and may continue") {
  const TokenTexts texts(kTexts);
  TokenConstraint constraint(grammarOf(R"({"type": "integer"})"), texts, {kEnd});
  CHECK(allowedOf(constraint) == std::vector<int32_t>{9, 10});
  constraint.take(9);
  CHECK_FALSE(constraint.hasEnded());
  CHECK(allowedOf(constraint) == std::vector<int32_t>{kEnd, 9, 10});
}

TEST_CASE("a character in two tokens is completed, and nothing else comes between") {
  const TokenTexts texts(kTexts);
  TokenConstraint constraint(grammarOf(R"({"const": "é"})"), texts, {kEnd});
  constraint.take(5);
  CHECK(allowedOf(constraint) == std::vector<int32_t>{15});
  constraint.take(15);
  CHECK(allowedOf(constraint) == std::vector<int32_t>{16});
  constraint.take(16);
  CHECK(allowedOf(constraint) == std::vector<int32_t>{5});
}

TEST_CASE("a vocabulary without a token that fits allows none") {
  const TokenTexts texts({"", "x"});
  TokenConstraint constraint(grammarOf(R"({"type": "integer"})"), texts, {kEnd});
  std::vector<float> logits(2, 1);
  REQUIRE(constraint.findAllowed(kAllSteps).value());
  CHECK(constraint.mask(logits).message().find("no token of the vocabulary") == 0);
  CHECK(std::isinf(logits[1]));
}

TEST_CASE(
    "a schema of many alternatives that begin alike is given up instead of followed for ever") {
  // 8 ways to read each bracket, and tokens of many brackets.
  std::string alternatives;
  for (int i = 1; i <= 8; ++i)
    alternatives += strCat(R"({"type": "array", "minItems": )", i, R"(, "items": {"$ref": "#"}},)");
  alternatives += R"({"type": "null"}])";
  std::vector<std::string> brackets = {""};
  for (size_t i = 1; i <= 64; ++i)
    brackets.emplace_back(i, '[');
  const TokenTexts texts(brackets);
  TokenConstraint constraint(grammarOf(("{\"anyOf\": [" + alternatives + "}").c_str()), texts,
                             {kEnd});
  CHECK(constraint.findAllowed(kAllSteps).status().message().find("too many ways to continue") !=
        std::string::npos);
  CHECK(constraint.steps() < TokenConstraint::mostSteps(texts));
}

TEST_CASE("the tokens are found a part of the steps at a time, and are those found at once") {
  const TokenTexts texts(largeVocabulary(5000));
  const auto grammar = grammarOf(R"({"type": "string", "maxLength": 9})");
  TokenConstraint whole(grammar, texts, {kEnd}), parts(grammar, texts, {kEnd});
  for (char character : {'"', 'a', 'b'}) {
    REQUIRE(whole.findAllowed(kAllSteps).value());
    int pauses = 0;
    uint64_t before = parts.steps();
    while (!parts.findAllowed(500).value()) {
      CHECK(parts.steps() - before < 5000); // One token more, and the states that it needs.
      before = parts.steps();
      ++pauses;
    }
    CHECK(pauses > 0);
    std::vector<float> a(texts.tokens(), 1), b = a;
    CHECK(whole.mask(a).isOk() == parts.mask(b).isOk());
    CHECK(a == b);
    whole.take(character - ' ' + 1);
    parts.take(character - ' ' + 1);
  }
}

TEST_CASE("schemas at the limits take bounded steps for a token of 150,000") {
  const TokenTexts texts(largeVocabulary(150'000));
  std::string lengths, optional, values, nested = R"({"type": "string"})";
  for (int i = 0; i < 64; ++i)
    lengths += strCat(R"({"type": "string", "maxLength": )", 100 + i, "},");
  for (int i = 0; i < 500; ++i)
    optional += strCat("\"name", i * 7919 % 1000, R"(": {"type": "string"},)");
  for (int i = 0; i < 2000; ++i)
    values += strCat("\"", std::string(static_cast<size_t>(i % 40), 'a'), i, "\",");
  for (int i = 0; i < 20; ++i)
    nested = R"({"type": "array", "items": )" + nested + "}";
  lengths.pop_back();
  optional.pop_back();
  values.pop_back();
  const std::string schemas[] = {
      R"({"type": "object"})",
      R"({"type": "string", "minLength": 1000, "maxLength": 1024})",
      R"({"anyOf": [)" + lengths + "]}",
      R"({"enum": [)" + values + "]}",
      nested,
      R"({"type": "object", "additionalProperties": false, "properties": {)" + optional + "}}",
      R"({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "object",
          "additionalProperties": {"$ref": "#"}}, {"type": "number"}, {"type": "string"}]})"};
  for (const std::string &schema : schemas) {
    CAPTURE(schema.substr(0, 80));
    TokenConstraint constraint(grammarOf(schema.c_str()), texts, {kEnd});
    uint64_t most = 0;
    for (int step = 0; step < 6 && !constraint.hasEnded(); ++step) {
      const uint64_t before = constraint.steps();
      REQUIRE(constraint.findAllowed(kAllSteps).value());
      most = std::max(most, constraint.steps() - before);
      std::vector<float> logits(texts.tokens(), 0);
      REQUIRE(constraint.mask(logits).isOk());
      auto taken = std::find(logits.begin() + 40 * step, logits.end(), 0);
      if (taken == logits.end())
        taken = std::find(logits.begin(), logits.end(), 0);
      constraint.take(static_cast<int32_t>(taken - logits.begin()));
    }
    CHECK(most < TokenConstraint::mostSteps(texts));
    CHECK((schema.starts_with("{\"anyOf\": [{\"type\": \"string\"") || most < 1'000'000));
    MESSAGE("most steps for a token: ", most);
  }
}

TEST_CASE("a text in a string finds its tokens again without a step") {
  const TokenTexts texts(largeVocabulary(5000));
  TokenConstraint constraint(grammarOf(R"({"type": "string"})"), texts, {kEnd});
  constraint.take('"' - ' ' + 1); // The characters begin with token 1.
  REQUIRE(constraint.findAllowed(kAllSteps).value());
  constraint.take('a' - ' ' + 1);
  const uint64_t before = constraint.steps();
  REQUIRE(constraint.findAllowed(kAllSteps).value());
  CHECK(constraint.steps() == before);
}
