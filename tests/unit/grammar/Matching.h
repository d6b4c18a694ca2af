// Whether a text is of a grammar.
#pragma once

#include "runtime/text/grammar/GrammarAutomaton.h"

#include <string_view>

namespace moert::test {

inline GrammarAutomaton::State stateAfter(GrammarAutomaton &automaton, std::string_view text) {
  GrammarAutomaton::State state = automaton.start();
  for (char byte : text)
    state = automaton.next(state, static_cast<unsigned char>(byte));
  return state;
}

inline bool matches(const Grammar &grammar, std::string_view text) {
  GrammarAutomaton automaton(grammar);
  return automaton.canEnd(stateAfter(automaton, text));
}

} // namespace moert::test
