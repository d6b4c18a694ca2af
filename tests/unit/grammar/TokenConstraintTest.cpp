#include "runtime/grammar/TokenConstraint.h"
#include "runtime/grammar/JsonSchema.h"

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
      grammarOfSchema(nlohmann::ordered_json::parse(schema)).value());
}

std::vector<int32_t> allowedOf(TokenConstraint &constraint) {
  std::vector<float> logits(kTexts.size(), 1);
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
  CHECK(constraint.mask(logits).message().find("no token of the vocabulary") == 0);
  CHECK(std::isinf(logits[1]));
}

TEST_CASE(
    "a schema of many alternatives that begin alike is given up instead of followed for ever") {
  // 8 ways to read each bracket, and tokens of many brackets.
  std::string alternatives;
  for (int i = 0; i < 8; ++i)
    alternatives += R"({"type": "array", "minItems": 1, "items": {"$ref": "#"}},)";
  alternatives.back() = ']';
  std::vector<std::string> brackets = {""};
  for (size_t i = 1; i <= 64; ++i)
    brackets.emplace_back(i, '[');
  const TokenTexts texts(brackets);
  TokenConstraint constraint(grammarOf(("{\"anyOf\": [" + alternatives + "}").c_str()), texts,
                             {kEnd});
  std::vector<float> logits(brackets.size(), 1);
  CHECK(constraint.mask(logits).message().find("too many ways to continue") != std::string::npos);
}
