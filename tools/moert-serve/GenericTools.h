// Tools for models whose chat template has none: a system message states them and the form of
// calls, which is that of the Hermes and Qwen families, and messages of calls and results become
// plain ones. docs/serve.md has the words.
#pragma once

#include "tools/moert-serve/ApiError.h"

namespace moert::serve {

/// messages: as templates expect them. tools: null without any; messages of earlier calls are
/// rewritten all the same.
Json withGenericTools(const Json &messages, const Json &tools);

} // namespace moert::serve
