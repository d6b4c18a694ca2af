#include "tests/unit/grammar/Matching.h"
#include "tests/unit/support/CountAllocations.h"

#include <doctest/doctest.h>
#include <string>

using namespace moert;
using namespace moert::test;

namespace {

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
  REQUIRE_FALSE(grammar.findFault());
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
  GrammarAutomaton automaton(grammar);
  CHECK_FALSE(automaton.canEnd(automaton.start()));
  const auto tr = stateAfter(automaton, "tr"), all = stateAfter(automaton, "try");
  CHECK(automaton.canEnd(tr));
  CHECK(automaton.canContinue(tr));
  CHECK(automaton.canEnd(all));
  CHECK_FALSE(automaton.canContinue(all));
  CHECK(stateAfter(automaton, "tryy") == GrammarAutomaton::kNone);
  CHECK_FALSE(automaton.canEnd(GrammarAutomaton::kNone));
}

TEST_CASE("a deep text stays bounded: it may not nest any deeper") {
  const Grammar grammar = brackets();
  GrammarAutomaton automaton(grammar);
  auto state = automaton.start();
  uint32_t depth = 0;
  while (depth < 10'000 && (state = automaton.next(state, '(')) != GrammarAutomaton::kNone)
    ++depth;
  CHECK(depth > 100);
  CHECK(depth < 1000);
}

TEST_CASE("a rule that can begin with itself is refused, also by way of others and of empty ones") {
  Grammar direct;
  direct.addRule();
  direct.addAlternative(0, {Grammar::ruleOf(0)});
  CHECK(direct.findFault());
  Grammar hidden;
  const uint32_t top = hidden.addRule(), empty = hidden.addRule(), middle = hidden.addRule();
  hidden.addAlternative(top, {Grammar::ruleOf(empty), Grammar::ruleOf(middle)});
  hidden.addAlternative(empty, {});
  hidden.addAlternative(middle, {Grammar::ruleOf(empty), Grammar::ruleOf(top)});
  CHECK(hidden.findFault().value().reason == "it refers to itself without any text between");
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

TEST_CASE("a long chain of rules that may be empty takes a short time in either order") {
  Grammar grammar;
  constexpr uint32_t kRules = 200'000;
  for (uint32_t i = 0; i < kRules; ++i)
    grammar.addRule();
  for (uint32_t i = 0; i + 1 < kRules; ++i)
    grammar.addAlternative(i, {Grammar::ruleOf(i + 1)});
  grammar.addAlternative(kRules - 1, {});
  CHECK(grammar.findFault().value().reason.find("rules begin with each other") !=
        std::string::npos);
}

TEST_CASE(
    "a byte is looked up once its state is known, and states are forgotten but those in use") {
  const Grammar grammar = brackets();
  GrammarAutomaton automaton(grammar);
  stateAfter(automaton, "((()))");
  const uint64_t before = automaton.steps();
  const auto state = stateAfter(automaton, "((()");
  CHECK(automaton.steps() - before == 4);
  GrammarAutomaton::State kept[] = {state, GrammarAutomaton::kNone};
  automaton.compact(kept);
  CHECK(kept[1] == GrammarAutomaton::kNone);
  CHECK_FALSE(automaton.canEnd(kept[0]));
  auto last = automaton.next(automaton.next(kept[0], ')'), ')');
  CHECK(automaton.canEnd(last));
  CHECK(automaton.next(last, ')') == GrammarAutomaton::kNone);
  CHECK(matches(grammar, "(((())))"));
}

TEST_CASE("a full automaton has allocated no more bytes than it may, nor has making room") {
  // Rule 0: rule 0 in brackets of either kind, or nothing. Each order of brackets is a state.
  Grammar grammar;
  const uint32_t top = grammar.addRule();
  for (const auto &[open, close] : {std::pair("(", ")"), std::pair("[", "]")}) {
    Grammar::Sequence nested;
    grammar.appendText(nested, open);
    nested.push_back(Grammar::ruleOf(top));
    grammar.appendText(nested, close);
    grammar.addAlternative(top, nested);
  }
  grammar.addAlternative(top, {});
  const uint64_t before = allocatedBytesSoFar();
  GrammarAutomaton automaton(grammar);
  auto state = automaton.start();
  for (uint32_t number = 0; number < (1 << 20) && !automaton.isFull(); ++number) {
    state = automaton.start();
    for (uint32_t bit = 0; bit < 20 && !automaton.isFull(); ++bit)
      state = automaton.next(state, (number >> bit) % 2 == 0 ? '(' : '[');
  }
  REQUIRE(automaton.isFull());
  const uint64_t full = allocatedBytesSoFar();
  CHECK(full - before <= GrammarAutomaton::kMostBytes);
  GrammarAutomaton::State kept[] = {state};
  automaton.compact(kept);
  CHECK_FALSE(automaton.isFull());
  CHECK(kept[0] != GrammarAutomaton::kNone);
  // What the tables allocate anew while the ones before are there, and the way between them.
  CHECK(allocatedBytesSoFar() - full <= GrammarAutomaton::kCompactBytes);
}

TEST_CASE("the ways to begin a rule's text are counted, also past empty rules") {
  Grammar grammar;
  const uint32_t top = grammar.addRule(), empty = grammar.addRule(), two = grammar.addRule();
  Grammar::Sequence text;
  grammar.appendText(text, "x");
  grammar.addAlternative(empty, {});
  grammar.addAlternative(empty, text);
  grammar.addAlternative(two, {Grammar::ruleOf(empty), Grammar::ruleOf(empty), text[0]});
  grammar.addAlternative(top, {Grammar::ruleOf(two)});
  grammar.addAlternative(top, {Grammar::ruleOf(two), text[0]});
  CHECK(grammar.waysToBegin() == std::vector<uint32_t>{6, 1, 3});
}
