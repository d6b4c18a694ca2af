// Grammars of calls in the form that a model's template has, so that a call that has to be made is
// written as the model was trained to write it.
#pragma once

#include "runtime/text/answer/CallForm.h"
#include "runtime/text/grammar/JsonSchema.h"

#include <span>
#include <string>

namespace moert::serve {

/// A function that a model may call.
struct FunctionSchema {
  std::string name;
  /// The schema of its arguments, an object; nullptr: it has none. References stay within it.
  const nlohmann::ordered_json *parameters = nullptr;
};

/// One call of one of the functions, or several, after writing.open. A generated text is read as
/// arguments that fit the function's schema.
///
/// Refuses names that the form could not have, as one within JSON's quotes can any, and where it
/// has texts without JSON's quotes, texts with bounds and parameters that may be a text or
/// something else: it could not keep them.
Result<SchemaGrammar> grammarOfCalls(const CallWriting &writing,
                                     std::span<const FunctionSchema> functions,
                                     const ToolTypes &types, bool allowsSeveral);

} // namespace moert::serve
