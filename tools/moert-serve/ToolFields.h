// "tools", "tool_choice" and "parallel_tool_calls" of a chat.
#pragma once

#include "tools/moert-serve/ApiCall.h"

namespace moert::serve {

/// The tools, null without any, or if none may be called. Sets how their calls are read, and where
/// one has to be made the grammar of `base`.
Json readTools(Fields &fields, const ServedModelInfo &info, ApiCall &call, AnswerRequest &base);

} // namespace moert::serve
