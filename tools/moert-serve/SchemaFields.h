// Schemas in requests: the grammars that answers are constrained by.
#pragma once

#include "runtime/text/grammar/JsonSchema.h"
#include "tools/moert-serve/ApiCall.h"
#include "tools/moert-serve/Fields.h"

#include <optional>
#include <string>

namespace moert::serve {

/// The grammar of schemas, unless they are refused: a strict one where its grammar does not keep a
/// keyword. Keywords that are not kept are added to the call. what: for messages, "response_format
/// 'f': ".
std::optional<Grammar> readGrammarOf(Result<SchemaGrammar> made, bool isStrict,
                                     const std::string &what, Fields &fields, const char *parameter,
                                     ApiCall &call);

} // namespace moert::serve
