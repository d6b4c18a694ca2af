#include "runtime/grammar/Grammar.h"

#include <doctest/doctest.h>
#include <string>

using namespace moert;

namespace {

bool matches(const Grammar &grammar, std::string_view text) {
  GrammarState state(grammar);
  for (char byte : text)
    if (!state.take(static_cast<unsigned char>(byte)))
      return false;
  return state.canEnd();
}

/// Rule 0: "(" rule 0 ")" rule 0, or nothing.
Grammar brackets() {
  Grammar grammar;
  const uint32_t top = grammar.addRule();
  Grammar::Sequence nested;
  grammar.appendText(nested, "(");
  nested.push_back(Grammar::ruleOf(top));
  grammar.appendText(nested, ")");
  nested.push_back(Grammar::ruleOf(top));
  grammar.addAlternative(top, nested);
  grammar.addAlternative(top, {});
  return grammar;
}

} // namespace

TEST_CASE("a text is matched byte by byte, and its end is known") {
  const Grammar grammar = brackets();
  REQUIRE(grammar.check().isOk());
  for (const char *text : {"", "()", "(())()", "((()())(()))"})
    CHECK(matches(grammar, text));
  for (const char *text : {"(", ")", "(()", "())", "(x)"})
    CHECK_FALSE(matches(grammar, text));
}

TEST_CASE("alternatives with the same beginning are followed together") {
  Grammar grammar;
  const uint32_t top = grammar.addRule();
  for (const char *text : {"true", "try", "tr"}) {
    Grammar::Sequence sequence;
    grammar.appendText(sequence, text);
    grammar.addAlternative(top, sequence);
  }
  CHECK(matches(grammar, "true"));
  CHECK(matches(grammar, "try"));
  CHECK(matches(grammar, "tr"));
  CHECK_FALSE(matches(grammar, "tru"));
  GrammarState state(grammar);
  CHECK_FALSE(state.canEnd());
  CHECK(state.take('t'));
  CHECK(state.take('r'));
  CHECK(state.canEnd());
  CHECK(state.canContinue());
  CHECK(state.take('y'));
  CHECK(state.canEnd());
  CHECK_FALSE(state.canContinue());
  CHECK_FALSE(state.take('y'));
  CHECK_FALSE(state.canEnd());
}

TEST_CASE("a deep text stays bounded: it may not nest any deeper") {
  const Grammar grammar = brackets();
  GrammarState state(grammar);
  uint32_t depth = 0;
  while (depth < 10'000 && state.take('('))
    ++depth;
  CHECK(depth > 100);
  CHECK(depth < 1000);
}

TEST_CASE("a rule that can begin with itself is refused, also by way of others and of empty ones") {
  Grammar direct;
  direct.addRule();
  direct.addAlternative(0, {Grammar::ruleOf(0)});
  CHECK_FALSE(direct.check().isOk());
  Grammar hidden;
  const uint32_t top = hidden.addRule(), empty = hidden.addRule(), middle = hidden.addRule();
  hidden.addAlternative(top, {Grammar::ruleOf(empty), Grammar::ruleOf(middle)});
  hidden.addAlternative(empty, {});
  hidden.addAlternative(middle, {Grammar::ruleOf(empty), Grammar::ruleOf(top)});
  CHECK(hidden.check().message() == "it refers to itself without any text between");
}

TEST_CASE("many equal beginnings take a bounded time") {
  Grammar grammar;
  // Rule i: rule i + 1 or rule i + 1; 2^40 ways to the last one.
  for (uint32_t i = 0; i <= 40; ++i)
    grammar.addRule();
  for (uint32_t i = 0; i < 40; ++i)
    for (int twice = 0; twice < 2; ++twice)
      grammar.addAlternative(i, {Grammar::ruleOf(i + 1)});
  Grammar::Sequence text;
  grammar.appendText(text, "x");
  grammar.addAlternative(40, text);
  CHECK(matches(grammar, "x"));
}
