// Calls as elements with attributes:
//
//   <minimax:tool_call>
//   <invoke name="get_weather">
//   <parameter name="city">Oslo</parameter>
//   </invoke>
//   </minimax:tool_call>
//
// MiniMax-M2; DeepSeek-V3.2 with <｜DSML｜function_calls> and that prefix in every tag.
#include "runtime/text/answer/CallForm.h"

namespace moert {

static CallReading readInvokes(std::string_view prefix, std::string_view body,
                               const ToolTypes &types, std::vector<ToolCall> &calls) {
  const auto tag = [prefix](std::string_view before, std::string_view after) {
    return std::string(before).append(prefix).append(after);
  };
  const std::string beginCall = tag("<", "invoke name=\""), endCall = tag("</", "invoke>");
  const std::string begin = tag("<", "parameter name=\""), end = tag("</", "parameter>");
  while (take(body, beginCall)) {
    const std::optional<std::string_view> name = takeUntil(body, "\"");
    if (!name || !take(body, ">"))
      return CallReading::kNoCall;
    ArgumentList arguments;
    while (take(body, begin)) {
      const std::optional<std::string_view> parameter = takeUntil(body, "\"");
      const std::optional<std::string_view> attributes = takeUntil(body, ">");
      const std::optional<std::string_view> value = takeUntil(body, end);
      if (!parameter || !attributes || !value)
        return CallReading::kNoCall;
      const bool isText = attributes->find("string=\"true\"") != std::string_view::npos;
      arguments.add(*parameter,
                    isText ? jsonString(*value) : types.valueOf(*name, *parameter, *value));
    }
    if (!take(body, endCall) || addCall(*name, arguments.text(), calls) != CallReading::kCall)
      return CallReading::kNoCall;
  }
  return trimmed(body).empty() && !calls.empty() ? CallReading::kCall : CallReading::kNoCall;
}

const CallForm kMiniMaxForm = {
    .name = "invoke",
    .signs = {"<minimax:tool_call>"},
    .marks = {{{"<minimax:tool_call>", "</minimax:tool_call>"}}},
    .needsClose = true,
    .writings = {{{.open = "<minimax:tool_call>\n",
                   .beforeName = "<invoke name=\"",
                   .afterName = "\">\n",
                   .beforeKey = "<parameter name=\"",
                   .afterKey = "\">",
                   .afterValue = "</parameter>\n",
                   .afterArguments = "</invoke>",
                   .between = "\n",
                   .end = "\n</minimax:tool_call>"}}},
    .read = [](std::string_view body, const ToolTypes &types, std::vector<ToolCall> &calls) {
      return readInvokes("", body, types, calls);
    }};
const CallForm kDsmlForm = {
    .name = "invoke-dsml",
    .signs = {"｜DSML｜"},
    .marks = {{{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"}}},
    .tokens = {"｜DSML｜"},
    .needsClose = true,
    .writings = {{{.open = "<｜DSML｜function_calls>\n",
                   .beforeName = "<｜DSML｜invoke name=\"",
                   .afterName = "\">\n",
                   .beforeKey = "<｜DSML｜parameter name=\"",
                   .afterKey = "\" string=\"false\">",
                   .afterValue = "</｜DSML｜parameter>\n",
                   .afterKeyOfText = "\" string=\"true\">",
                   .afterArguments = "</｜DSML｜invoke>",
                   .between = "\n",
                   .end = "\n</｜DSML｜function_calls>"}}},
    .read = [](std::string_view body, const ToolTypes &types, std::vector<ToolCall> &calls) {
      return readInvokes("｜DSML｜", body, types, calls);
    }};

} // namespace moert
