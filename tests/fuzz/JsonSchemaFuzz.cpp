// Any bytes as a schema, and the rest of the input as choices among the bytes that its grammar
// allows: what is generated is JSON, unless the choices end before the text does.
#include "runtime/text/grammar/GrammarAutomaton.h"
#include "runtime/text/grammar/JsonSchema.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace moert;
  const std::string_view input(reinterpret_cast<const char *>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  const auto schema = nlohmann::ordered_json::parse(input.substr(0, end), nullptr, false);
  if (schema.is_discarded())
    return 0;
  Result<SchemaGrammar> grammar = grammarOfSchema(schema);
  if (!grammar.isOk())
    return 0;
  GrammarAutomaton automaton(grammar->grammar);
  GrammarAutomaton::State state = automaton.start();
  std::string text;
  for (size_t i = end + 1; i < size && automaton.canContinue(state); ++i) {
    if (automaton.isFull())
      automaton.compact({&state, 1});
    const auto next = automaton.next(state, data[i]);
    if (next == GrammarAutomaton::kNone)
      continue;
    state = next;
    text += static_cast<char>(data[i]);
  }
  if (automaton.canEnd(state) && !nlohmann::json::accept(text))
    std::abort();
  return 0;
}
