// Grammars of JSON texts: any object, or the values that a JSON schema describes.
//
// A generated text fits the schema, but not every text that fits can be generated: listed
// properties come in the schema's order, others only where additionalProperties or
// patternProperties allow them, values of enum and const and characters of patterns are spelled one
// way, numbers have at most 16 digits before and after the point, and white space is short.
// Keywords that a grammar cannot keep are named beside it.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/grammar/Grammar.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moert {

/// What building a grammar allocates at most, the grammar included.
constexpr uint64_t kGrammarBuildBytes = uint64_t(6) << 20;

/// Any JSON object.
Grammar grammarOfJsonObject();

struct SchemaGrammar {
  Grammar grammar;
  /// Keywords that the texts may not fit, with their places and the reason: "#/items: contains".
  std::vector<std::string> unenforced = {};
};

/// The schema is untrusted; its depth must be bounded. Errors name the place and the keyword.
Result<SchemaGrammar> grammarOfSchema(const nlohmann::ordered_json &schema);

/// A function that a model may call.
struct FunctionSchema {
  std::string name;
  /// The schema of its arguments, an object; nullptr: it has none. References stay within it.
  const nlohmann::ordered_json *parameters = nullptr;
};

/// One call of one of the functions: {"name": "f", "arguments": {...}}. Errors name the function.
Result<SchemaGrammar> grammarOfCall(std::span<const FunctionSchema> functions);

} // namespace moert
