// Calls of GLM-4.5 and later: a name, and each argument as two elements.
//
//   <tool_call>get_weather
//   <arg_key>city</arg_key>
//   <arg_value>Oslo</arg_value>
//   </tool_call>
#include "runtime/text/answer/CallForm.h"

namespace moert {

static CallReading readArgKeys(std::string_view body, const ToolTypes &types,
                               std::vector<ToolCall> &calls) {
  const std::string_view name = trimmed(body.substr(0, body.find("<arg_key>")));
  ArgumentList arguments;
  take(body, name);
  while (take(body, "<arg_key>")) {
    const std::optional<std::string_view> key = takeUntil(body, "</arg_key>");
    if (!key || !take(body, "<arg_value>"))
      return CallReading::kNoCall;
    const std::optional<std::string_view> value = takeUntil(body, "</arg_value>");
    if (!value)
      return CallReading::kNoCall;
    arguments.add(*key, types.valueOf(name, *key, *value));
  }
  return trimmed(body).empty() ? addCall(name, arguments.text(), calls) : CallReading::kNoCall;
}

const CallForm kArgKeyForm = {.name = "arg-key",
                              .signs = {"<arg_key>"},
                              .marks = {{{"<tool_call>", "</tool_call>"}}},
                              .needsClose = true,
                              .writings = {{{.open = "<tool_call>",
                                             .afterName = "\n",
                                             .beforeKey = "<arg_key>",
                                             .afterKey = "</arg_key>\n<arg_value>",
                                             .afterValue = "</arg_value>\n",
                                             .afterArguments = "</tool_call>",
                                             .between = "\n<tool_call>"}}},
                              .read = readArgKeys};

} // namespace moert
