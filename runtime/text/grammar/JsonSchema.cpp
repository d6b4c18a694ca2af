#include "runtime/text/grammar/JsonSchema.h"

#include "runtime/text/grammar/SchemaCompiler.h"

#include <optional>
#include <utility>

namespace moert {

Grammar grammarOfJsonObject() {
  Grammar grammar;
  const uint32_t top = grammar.addRule();
  const JsonRules rules(grammar);
  grammar.addAlternative(top, JsonRules::one(rules.object));
  grammar.shrink();
  return grammar;
}

// Built twice where it has a fault, the second time to name the place.
Result<SchemaGrammar> grammarOfSchema(const SchemaJson &schema) {
  RulePlace place = {};
  for (RulePlace *wanted = nullptr;; wanted = &place) {
    Grammar grammar;
    grammar.addRule();
    SchemaCompiler compiler(schema, grammar, wanted);
    MOERT_ASSIGN_OR_RETURN(const uint32_t top, compiler.compile());
    grammar.addAlternative(0, JsonRules::one(top));
    const std::optional<Grammar::Fault> fault = grammar.findFault();
    if (fault && wanted)
      return invalidInput(place.path.empty() ? "#" : place.path, ": ", fault->reason);
    if (fault) {
      place.rule = fault->rule;
      continue;
    }
    if (!grammar.dropUnproductive()[top])
      return invalidInput(compiler.emptyReason());
    grammar.shrink();
    return SchemaGrammar{std::move(grammar), compiler.unenforcedKeywords()};
  }
}

} // namespace moert
