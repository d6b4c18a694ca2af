// Grammars of JSON texts: any object, or the values that a JSON schema describes.
//
// A generated text always fits the schema, but not every text that fits can be generated: listed
// properties come in the schema's order and no others beside them, values of enum and const are
// spelled one way, numbers have at most 16 digits before and after the point, and white space is
// short. A keyword that would not be kept is refused by its name.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/grammar/Grammar.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace moert {

/// What building a grammar allocates at most, the grammar included.
constexpr uint64_t kGrammarBuildBytes = uint64_t(4) << 20;

/// Any JSON object.
Grammar grammarOfJsonObject();

/// The schema is untrusted; its depth must be bounded. Errors name the place and the keyword.
Result<Grammar> grammarOfSchema(const nlohmann::ordered_json &schema);

/// A function that a model may call.
struct FunctionSchema {
  std::string name;
  /// The schema of its arguments, an object; nullptr: it has none. References stay within it.
  const nlohmann::ordered_json *parameters = nullptr;
};

/// One call of one of the functions: {"name": "f", "arguments": {...}}. Errors name the function.
Result<Grammar> grammarOfCall(std::span<const FunctionSchema> functions);

} // namespace moert
