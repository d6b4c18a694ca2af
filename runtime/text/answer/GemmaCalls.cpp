// Calls of Gemma's models, whose objects have names without quotes:
//
//   <|tool_call>call:get_weather{city:<|"|>Oslo<|"|>,days:2}<tool_call|>          Gemma 4
//   <start_function_call>call:get_weather{city:<escape>Oslo<escape>}<end_function_call>
#include "runtime/text/answer/CallForm.h"
#include "runtime/text/answer/LooseValue.h"

namespace moert {

static CallReading readGemma(std::string_view quote, std::string_view body,
                             std::vector<ToolCall> &calls) {
  if (!take(body, "call:"))
    return CallReading::kNoCall;
  const std::string_view name = takeName(body);
  const std::optional<std::string> arguments = takeLooseValue(body, quote);
  if (!arguments || !trimmed(body).empty())
    return CallReading::kNoCall;
  return addCall(name, *arguments, calls);
}

static constexpr CallWriting writingWith(std::string_view open, std::string_view quote,
                                         std::string_view close, std::string_view between) {
  return {.open = open,
          .start = "call:",
          .afterName = "{",
          .afterKey = ":",
          .separator = ",",
          .quote = quote,
          .afterArguments = close,
          .between = between};
}

const CallForm kGemma4Form = {
    .name = "gemma",
    .signs = {"<|tool_call>"},
    .marks = {{{"<|tool_call>", "<tool_call|>"}}},
    .tokens = {"<|\"|>"},
    .writings = {{writingWith("<|tool_call>", "<|\"|>", "}<tool_call|>", "<|tool_call>call:")}},
    .read = [](std::string_view body, const ToolTypes &, std::vector<ToolCall> &calls) {
      return readGemma("<|\"|>", body, calls);
    }};
const CallForm kFunctionGemmaForm = {
    .name = "gemma-function",
    .signs = {"<start_function_call>"},
    .marks = {{{"<start_function_call>", "<end_function_call>"}}},
    .tokens = {"<escape>"},
    .writings = {{writingWith("<start_function_call>", "<escape>", "}<end_function_call>",
                              "<start_function_call>call:")}},
    .read = [](std::string_view body, const ToolTypes &, std::vector<ToolCall> &calls) {
      return readGemma("<escape>", body, calls);
    }};

} // namespace moert
