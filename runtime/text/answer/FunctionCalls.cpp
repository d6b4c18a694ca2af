// Calls as elements whose tags have the names:
//
//   <tool_call>
//   <function=get_weather>
//   <parameter=city>
//   Oslo
//   </parameter>
//   </function>
//   </tool_call>
//
// Qwen3-Coder, Qwen3.5, Nemotron 3; Seed-OSS with <seed:tool_call>. Models leave <tool_call> out
// at times. A newline after a tag and one before the next belong to the tags.
#include "runtime/text/answer/CallForm.h"

namespace moert {

static std::string_view withoutNewlines(std::string_view text) {
  if (text.starts_with('\n'))
    text.remove_prefix(1);
  if (text.ends_with('\n'))
    text.remove_suffix(1);
  return text;
}

static CallReading readFunctions(std::string_view body, const ToolTypes &types,
                                 std::vector<ToolCall> &calls) {
  // Where <function= is the mark, its end is too.
  const bool isInner = !take(body, "<function=");
  do {
    const std::optional<std::string_view> name = takeUntil(body, ">");
    if (!name)
      return CallReading::kNoCall;
    ArgumentList arguments;
    while (take(body, "<parameter=")) {
      const std::optional<std::string_view> parameter = takeUntil(body, ">");
      const std::optional<std::string_view> value = takeUntil(body, "</parameter>");
      if (!parameter || !value)
        return CallReading::kNoCall;
      arguments.add(*parameter, types.valueOf(*name, *parameter, withoutNewlines(*value)));
    }
    if (!isInner && !take(body, "</function>"))
      return CallReading::kNoCall;
    if (addCall(*name, arguments.text(), calls) != CallReading::kCall)
      return CallReading::kNoCall;
  } while (!isInner && take(body, "<function="));
  return trimmed(body).empty() ? CallReading::kCall : CallReading::kNoCall;
}

static constexpr CallWriting writingBetween(std::string_view open, std::string_view close,
                                            std::string_view between) {
  return {.open = open,
          .beforeName = "<function=",
          .afterName = ">\n",
          .beforeKey = "<parameter=",
          .afterKey = ">\n",
          .afterValue = "\n</parameter>\n",
          .afterArguments = close,
          .between = between};
}

const CallForm kFunctionForm = {
    .name = "function",
    .signs = {"<function="},
    .marks = {{{"<tool_call>", "</tool_call>"}, {"<function=", "</function>"}}},
    .hidden = {"</tool_call>"},
    .needsClose = true,
    .writings = {{writingBetween("<tool_call>\n", "</function>\n</tool_call>", "\n<tool_call>\n")}},
    .read = readFunctions};
const CallForm kSeedForm = {
    .name = "function-seed",
    .signs = {"<seed:tool_call>"},
    .marks = {{{"<seed:tool_call>", "</seed:tool_call>"}}},
    .needsClose = true,
    .writings = {{writingBetween("<seed:tool_call>\n", "</function>\n</seed:tool_call>",
                                 "\n<seed:tool_call>\n")}},
    .read = readFunctions};

} // namespace moert
