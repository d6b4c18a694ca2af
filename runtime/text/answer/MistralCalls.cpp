// Calls of Mistral's models: a list of JSON objects after [TOOL_CALLS], or since 2025 a name and
// its arguments for each call:
//
//   [TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Oslo"}}]
//   [TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}[TOOL_CALLS]now[ARGS]{}
#include "runtime/text/answer/CallForm.h"

#include <algorithm>

namespace moert {

static CallReading readMistral(std::string_view body, const ToolTypes &types,
                               std::vector<ToolCall> &calls) {
  if (const std::string_view text = trimmed(body); text.starts_with('[') || text.starts_with('{'))
    return kJsonForm.read(body, types, calls);
  const std::string_view name = body.substr(0, body.find_first_of("[{"));
  body.remove_prefix(name.size());
  if (take(body, "[CALL_ID]"))
    body.remove_prefix(std::min(body.find('['), body.size()));
  take(body, "[ARGS]");
  return addCall(name, body, calls);
}

const CallForm kMistralForm = {.name = "mistral",
                               .signs = {"[TOOL_CALLS]"},
                               .marks = {{{"[TOOL_CALLS]"}}},
                               .tokens = {"[ARGS]", "[CALL_ID]"},
                               .writings = {{{.sign = "[ARGS]",
                                              .open = "[TOOL_CALLS]",
                                              .afterName = "[ARGS]",
                                              .between = "[TOOL_CALLS]"},
                                             {.open = "[TOOL_CALLS]",
                                              .start = "[",
                                              .beforeName = R"({"name": ")",
                                              .afterName = R"(", "arguments": )",
                                              .afterArguments = "}",
                                              .between = ", ",
                                              .end = "]"}}},
                               .read = readMistral};

} // namespace moert
