#include "runtime/text/grammar/TokenConstraint.h"
#include "runtime/text/grammar/JsonSchema.h"
#include "tests/unit/grammar/LargeVocabulary.h"
#include "tests/unit/support/FailAllocations.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <new>
#include <nlohmann/json.hpp>

using namespace moert;
using namespace moert::test;

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

std::shared_ptr<GrammarMatcher> matcherOf(const std::string &schema, const TokenTexts &texts) {
  return std::make_shared<GrammarMatcher>(grammarOf(schema.c_str()), texts);
}

/// Steps for all that there is to do.
constexpr uint64_t kAllSteps = uint64_t(1) << 60;

std::vector<int32_t> allowedOf(TokenConstraint &constraint) {
  REQUIRE(constraint.findAllowed(kAllSteps));
  std::vector<int32_t> allowed;
  const bool isAny = constraint.listAllowed(allowed).isOk();
  CHECK(isAny == !allowed.empty());
  for (int32_t token = 0; token < static_cast<int32_t>(kTexts.size()); ++token)
    CHECK(constraint.allows(token) == std::binary_search(allowed.begin(), allowed.end(), token));
  return allowed;
}

} // namespace

TEST_CASE("exactly the tokens whose bytes fit are allowed, at each place") {
  const TokenTexts texts(kTexts);
  TokenConstraint constraint(
      matcherOf(R"({"type": "object", "properties": {"a": {"type": "integer"}},
                    "required": ["a"], "additionalProperties": false})",
                texts),
      {kEnd});
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
  TokenConstraint constraint(matcherOf(R"({"type": "integer"})", texts), {kEnd});
  CHECK(allowedOf(constraint) == std::vector<int32_t>{9, 10});
  constraint.take(9);
  CHECK_FALSE(constraint.hasEnded());
  CHECK(allowedOf(constraint) == std::vector<int32_t>{kEnd, 9, 10});
}

TEST_CASE("a character in two tokens is completed, and nothing else comes between") {
  const TokenTexts texts(kTexts);
  TokenConstraint constraint(matcherOf(R"({"const": "é"})", texts), {kEnd});
  constraint.take(5);
  CHECK(allowedOf(constraint) == std::vector<int32_t>{15});
  constraint.take(15);
  CHECK(allowedOf(constraint) == std::vector<int32_t>{16});
  constraint.take(16);
  CHECK(allowedOf(constraint) == std::vector<int32_t>{5});
}

TEST_CASE("a vocabulary without a token that fits allows none") {
  const TokenTexts texts({"", "x"});
  TokenConstraint constraint(matcherOf(R"({"type": "integer"})", texts), {kEnd});
  std::vector<int32_t> allowed;
  REQUIRE(constraint.findAllowed(kAllSteps));
  CHECK(constraint.listAllowed(allowed).message().find("no token of the vocabulary") == 0);
  CHECK(allowed.empty());
}

TEST_CASE(
    "tokens that too many ways would follow are refused, and the format where these are all") {
  // 8 ways to read each bracket.
  std::string alternatives;
  for (int i = 1; i <= 8; ++i)
    alternatives += strCat(R"({"type": "array", "minItems": )", i, R"(, "items": {"$ref": "#"}},)");
  alternatives += R"({"type": "null"}])";
  std::vector<std::string> brackets = {""};
  for (size_t i = 1; i <= 64; ++i)
    brackets.emplace_back(i, '[');
  const TokenTexts texts(brackets);
  TokenConstraint constraint(matcherOf("{\"anyOf\": [" + alternatives + "}", texts), {kEnd});
  CHECK(constraint.allows(2));
  CHECK_FALSE(constraint.allows(40));
  constraint.take(1);
  CHECK(constraint.allows(1));
  while (constraint.allows(1))
    constraint.take(1);
  std::vector<int32_t> allowed;
  REQUIRE(constraint.findAllowed(kAllSteps));
  CHECK(constraint.listAllowed(allowed).message().find("too many ways to continue") !=
        std::string::npos);
}

TEST_CASE("the tokens are found a part of the steps at a time, and are those found at once") {
  const TokenTexts texts(largeVocabulary(5000));
  const std::string schema = R"({"type": "string", "maxLength": 9})";
  TokenConstraint whole(matcherOf(schema, texts), {kEnd});
  TokenConstraint parts(matcherOf(schema, texts), {kEnd});
  int pauses = 0;
  for (char character : {'"', 'a', 'b'}) {
    uint64_t before = parts.steps();
    while (!parts.findAllowed(500)) {
      CHECK(parts.steps() - before < 5000); // One token more, and the states that it needs.
      before = parts.steps();
      ++pauses;
    }
    CHECK(allowedOf(whole) == allowedOf(parts));
    whole.take(character - ' ' + 1);
    parts.take(character - ' ' + 1);
  }
  CHECK(pauses > 2);
}

TEST_CASE("sequences that share what they find allow the same as alone, also where all states get "
          "new numbers meanwhile") {
  const TokenTexts texts(largeVocabulary(3000));
  const std::string schema = manyStrings(40);
  const auto shared = matcherOf(schema, texts);
  TokenConstraint first(shared, {kEnd}), second(shared, {kEnd});
  TokenConstraint alone(matcherOf(schema, texts), {kEnd});
  for (char character : {'"', 'a', 'b', 'c'}) {
    first.findAllowed(100);
    allowedOf(second); // Makes room more than once.
    CHECK(allowedOf(first) == allowedOf(alone));
    for (TokenConstraint *one : {&first, &second, &alone})
      one->take(character - ' ' + 1);
  }
}

TEST_CASE(
    "whichever allocation fails for one of the sequences that share what they find, the other "
    "goes on the same") {
  const TokenTexts texts(largeVocabulary(600));
  const auto grammar = grammarOf(manyStrings(64).c_str());
  constexpr int32_t kQuote = '"' - ' ' + 1, kLetter = 'a' - ' ' + 1;
  TokenConstraint alone(std::make_shared<GrammarMatcher>(grammar, texts), {kEnd});
  alone.take(kQuote);
  const std::vector<int32_t> expected = allowedOf(alone);
  alone.take(kLetter);
  const std::vector<int32_t> expectedNext = allowedOf(alone);
  int failures = 0;
  for (bool hasFailed = true; hasFailed; ++failures) {
    CAPTURE(failures);
    const auto shared = std::make_shared<GrammarMatcher>(grammar, texts); // By both.
    TokenConstraint first(shared, {kEnd});
    std::optional<TokenConstraint> second(std::in_place, shared, std::vector<int32_t>{kEnd});
    first.take(kQuote);
    second->take(kQuote);
    REQUIRE(first.findAllowed(kAllSteps)); // Known to both when room is made.
    {
      const FailingAllocation failing(static_cast<uint64_t>(failures));
      try {
        for (int letters = 0; letters < 100; ++letters) // Makes room more than once.
          second->take(kLetter);
        second->findAllowed(kAllSteps);
      } catch (const std::bad_alloc &) {
      }
      hasFailed = failing.failed() != AllocationKind::kNoAllocation;
    }
    second.reset();
    CHECK(allowedOf(first) == expected);
    first.take(kLetter);
    CHECK(allowedOf(first) == expectedNext);
  }
  CHECK(failures > 20); // There were some to fail.
}

TEST_CASE("schemas at the limits take bounded steps for a token of 150,000") {
  const TokenTexts texts(largeVocabulary(150'000));
  std::string optional, values, nested = R"({"type": "string"})";
  for (int i = 0; i < 500; ++i)
    optional += strCat("\"name", i * 7919 % 1000, R"(": {"type": "string"},)");
  for (int i = 0; i < 2000; ++i)
    values += strCat("\"", std::string(static_cast<size_t>(i % 40), 'a'), i, "\",");
  for (int i = 0; i < 20; ++i)
    nested = R"({"type": "array", "items": )" + nested + "}";
  optional.pop_back();
  values.pop_back();
  const std::string schemas[] = {
      R"({"type": "object"})",
      R"({"type": "string", "minLength": 1000, "maxLength": 1024})",
      manyStrings(64),
      R"({"enum": [)" + values + "]}",
      nested,
      R"({"type": "object", "additionalProperties": false, "properties": {)" + optional + "}}",
      R"({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "object",
          "additionalProperties": {"$ref": "#"}}, {"type": "number"}, {"type": "string"}]})"};
  for (const std::string &schema : schemas) {
    CAPTURE(schema.substr(0, 80));
    TokenConstraint constraint(matcherOf(schema, texts), {kEnd});
    uint64_t most = 0;
    for (int step = 0; step < 6 && !constraint.hasEnded(); ++step) {
      const uint64_t before = constraint.steps();
      REQUIRE(constraint.findAllowed(kAllSteps));
      most = std::max(most, constraint.steps() - before);
      std::vector<int32_t> allowed;
      REQUIRE(constraint.listAllowed(allowed).isOk());
      const auto taken = std::lower_bound(allowed.begin(), allowed.end(), 40 * step);
      constraint.take(taken == allowed.end() ? allowed.front() : *taken);
    }
    CHECK((schema.starts_with("{\"anyOf\": [{\"type\": \"string\"") || most < 1'000'000));
    MESSAGE("most steps for a token: ", most);
  }
}

TEST_CASE("a state is narrow where few bytes may come next, which takes no step to tell") {
  const TokenTexts texts(largeVocabulary(100));
  TokenConstraint constraint(matcherOf(R"({"type": ["string", "integer"]})", texts), {kEnd});
  const uint64_t before = constraint.steps();
  CHECK(constraint.isNarrow()); // A quote, a minus and the digits.
  CHECK(constraint.steps() == before);
  constraint.take('"' - ' ' + 1);
  CHECK_FALSE(constraint.isNarrow());
  constraint.take('a' - ' ' + 1);
  constraint.take('"' - ' ' + 1);
  CHECK(constraint.isNarrow()); // Nothing.
}

TEST_CASE("a text in a string finds its tokens again without a step") {
  const TokenTexts texts(largeVocabulary(5000));
  TokenConstraint constraint(matcherOf(R"({"type": "string"})", texts), {kEnd});
  constraint.take('"' - ' ' + 1); // The characters begin with token 1.
  REQUIRE(constraint.findAllowed(kAllSteps));
  constraint.take('a' - ' ' + 1);
  const uint64_t before = constraint.steps();
  REQUIRE(constraint.findAllowed(kAllSteps));
  CHECK(constraint.steps() == before);
}

TEST_CASE("a grammar's sequences share what they find, at most so many, and forget it together") {
  const TokenTexts texts(largeVocabulary(5000));
  const auto grammar = grammarOf(R"({"type": "string"})"), other = grammarOf(R"({"type": "null"})");
  GrammarMatchers matchers;
  std::vector<std::unique_ptr<TokenConstraint>> users;
  auto add = [&] {
    users.push_back(std::make_unique<TokenConstraint>(matchers.matcherOf(grammar, texts),
                                                      std::vector<int32_t>{kEnd}));
    return users.back().get();
  };
  TokenConstraint *first = add(), *second = add();
  REQUIRE(first->findAllowed(kAllSteps));
  CHECK(second->steps() == first->steps());
  CHECK(second->findAllowed(1)); // Without a step.
  const auto matcher = matchers.matcherOf(grammar, texts);
  CHECK(matchers.matcherOf(other, texts) != matcher);
  while (users.size() < GrammarMatcher::kMostUsers)
    add();
  CHECK(matchers.matcherOf(grammar, texts) != matcher);
  users.clear();
  CHECK(matcher.use_count() == 1);
}
