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

} // namespace moert
