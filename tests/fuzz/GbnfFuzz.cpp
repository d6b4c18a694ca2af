// Any bytes as a grammar in llama.cpp's notation. One that is read can be followed.
#include "runtime/text/grammar/Gbnf.h"
#include "runtime/text/grammar/GrammarAutomaton.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace moert;
  Result<Grammar> grammar = grammarOfGbnf({reinterpret_cast<const char *>(data), size});
  if (!grammar.isOk())
    return 0;
  GrammarAutomaton automaton(*grammar);
  if (!automaton.canEnd(automaton.start()) && !automaton.canContinue(automaton.start()) &&
      !automaton.hasLostWays())
    std::abort();
  return 0;
}
