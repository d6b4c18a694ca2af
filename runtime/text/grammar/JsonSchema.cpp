#include "runtime/text/grammar/JsonSchema.h"

#include "runtime/base/Excerpt.h"
#include "runtime/text/grammar/SchemaCompiler.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <span>
#include <string>

namespace moert {

namespace {

/// Builds a grammar twice where it has a fault, the second time to name the place. build: adds the
/// alternatives of rule 0.
template <class Build> Result<SchemaGrammar> checkedGrammar(const Build &build) {
  SchemaGrammar made;
  RulePlace place = {};
  for (RulePlace *wanted : {static_cast<RulePlace *>(nullptr), &place}) {
    made.grammar = Grammar();
    made.grammar.addRule();
    SchemaRules rules(made.grammar);
    rules.wanted = wanted;
    MOERT_RETURN_IF_ERROR(build(rules));
    const std::optional<Grammar::Fault> fault = made.grammar.findFault();
    if (fault && wanted)
      return invalidInput(place.path.empty() ? "#" : place.path, ": ", fault->reason);
    if (fault) {
      place.rule = fault->rule;
      continue;
    }
    const std::vector<bool> isProductive = made.grammar.dropUnproductive();
    for (const auto &[rule, emptyReason] : rules.tops)
      if (!isProductive[rule])
        return invalidInput(emptyReason);
    made.unenforced = rules.unenforced.list();
    break;
  }
  made.grammar.shrink();
  return made;
}

} // namespace

Grammar grammarOfJsonObject() {
  Grammar grammar;
  const uint32_t top = grammar.addRule();
  const JsonRules rules(grammar);
  grammar.addAlternative(top, JsonRules::one(rules.object));
  grammar.shrink();
  return grammar;
}

Result<SchemaGrammar> grammarOfSchema(const nlohmann::ordered_json &schema) {
  return checkedGrammar([&](SchemaRules &rules) -> Status {
    MOERT_ASSIGN_OR_RETURN(uint32_t top, SchemaCompiler(schema, rules).compile());
    rules.grammar.addAlternative(0, JsonRules::one(top));
    return {};
  });
}

Result<SchemaGrammar> grammarOfCall(std::span<const FunctionSchema> functions) {
  static const SchemaJson kNoParameters = {
      {"type", "object"}, {"properties", SchemaJson::object()}, {"additionalProperties", false}};
  return checkedGrammar([&](SchemaRules &rules) -> Status {
    for (const FunctionSchema &function : functions) {
      const std::string context = strCat("function '", excerpt(function.name), "'");
      const bool wasPlaced = rules.wanted && !rules.wanted->path.empty();
      const SchemaJson &parameters = function.parameters ? *function.parameters : kNoParameters;
      rules.unenforced.context = context + ": ";
      Result<uint32_t> arguments = SchemaCompiler(parameters, rules).compile();
      if (!arguments.isOk())
        return Status(arguments.status()).withContext(context);
      rules.tops.back().second = context + ": " + rules.tops.back().second;
      if (rules.wanted && !rules.wanted->path.empty() && !wasPlaced)
        rules.wanted->path = context + ": " + rules.wanted->path;
      Grammar::Sequence sequence;
      rules.grammar.appendText(
          sequence, strCat("{\"name\": ", SchemaJson(function.name).dump(), ", \"arguments\": "));
      sequence.push_back(Grammar::ruleOf(*arguments));
      rules.grammar.appendText(sequence, "}");
      rules.grammar.addAlternative(0, sequence);
    }
    return {};
  });
}

} // namespace moert
