// Calls of Kimi-K2, whose names have the call's number:
//
//   <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0
//   <|tool_call_argument_begin|>{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>
#include "runtime/text/answer/CallForm.h"

namespace moert {

static CallReading readKimi(std::string_view body, const ToolTypes &,
                            std::vector<ToolCall> &calls) {
  std::optional<std::string_view> name = takeUntil(body, "<|tool_call_argument_begin|>");
  if (!name)
    return CallReading::kNoCall;
  take(*name, "functions.");
  return addCall(name->substr(0, name->rfind(':')), body, calls);
}

const CallForm kKimiForm = {
    .name = "kimi",
    .signs = {"<|tool_call_begin|>"},
    .marks = {{{"<|tool_call_begin|>", "<|tool_call_end|>"}}},
    .hidden = {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"},
    .tokens = {"<|tool_call_argument_begin|>"},
    .needsClose = true,
    .writings = {{{.open = "<|tool_calls_section_begin|><|tool_call_begin|>",
                   .beforeName = "functions.",
                   .afterName = ":#<|tool_call_argument_begin|>",
                   .afterArguments = "<|tool_call_end|>",
                   .between = "<|tool_call_begin|>",
                   .end = "<|tool_calls_section_end|>"}}},
    .read = readKimi};

} // namespace moert
