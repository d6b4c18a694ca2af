// Calls as Python writes them, in a list:
//
//   [get_weather(city="Oslo", days=2), now()]                                   Llama 4
//   <|tool_call_start|>[get_weather(city="Oslo")]<|tool_call_end|>              LFM2
#include "runtime/text/answer/CallForm.h"
#include "runtime/text/answer/LooseValue.h"

namespace moert {

static CallReading readPython(std::string_view body, const ToolTypes &,
                              std::vector<ToolCall> &calls) {
  if (!take(body, "["))
    return CallReading::kNoCall;
  do {
    const std::string_view name = takeName(body);
    if (!take(body, "("))
      return CallReading::kNoCall;
    ArgumentList arguments;
    while (!take(body, ")")) {
      const std::string_view parameter = takeName(body);
      if (parameter.empty() || !take(body, "="))
        return CallReading::kNoCall;
      const std::optional<std::string> value = takeLooseValue(body, "");
      if (!value)
        return CallReading::kNoCall;
      arguments.add(parameter, *value);
      take(body, ",");
    }
    if (addCall(name, arguments.text(), calls) != CallReading::kCall)
      return CallReading::kNoCall;
  } while (take(body, ","));
  if (!take(body, "]"))
    return CallReading::kNoCall;
  take(body, "<|python_end|>"); // A whole message is read up to its end.
  return trimmed(body).empty() ? CallReading::kCall : CallReading::kNoCall;
}

static constexpr CallWriting callsBetween(std::string_view open, std::string_view end) {
  return {.open = open,
          .start = "[",
          .afterName = "(",
          .afterKey = "=",
          .separator = ", ",
          .afterArguments = ")",
          .between = ", ",
          .end = end};
}

const CallForm kLlama4Form = {.name = "python-message",
                              .signs = {"<|header_start|>", "<|python_start|>"},
                              .marks = {{{"["}}},
                              .hidden = {"<|python_start|>", "<|python_end|>"},
                              .isWholeMessage = true,
                              .writings = {{callsBetween("", "]")}},
                              .read = readPython};
const CallForm kLfm2Form = {
    .name = "python",
    .signs = {"<|tool_call_start|>", "<|tool_list_start|>"},
    .marks = {{{"<|tool_call_start|>", "<|tool_call_end|>"}}},
    .writings = {{callsBetween("<|tool_call_start|>", "]<|tool_call_end|>")}},
    .read = readPython};

} // namespace moert
