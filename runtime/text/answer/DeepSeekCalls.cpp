// Calls of DeepSeek-V3.1, and with a fence around the arguments those of V3 and R1:
//
//   <｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Oslo"}<｜tool▁call▁end｜>
//   <｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
//   ```json
//   {"city": "Oslo"}
//   ```<｜tool▁call▁end｜>
#include "runtime/text/answer/CallForm.h"

namespace moert {

static CallReading readDeepSeek(std::string_view body, const ToolTypes &,
                                std::vector<ToolCall> &calls) {
  std::optional<std::string_view> name = takeUntil(body, "<｜tool▁sep｜>");
  if (!name)
    return CallReading::kNoCall;
  constexpr std::string_view kFence = "```";
  if (trimmed(body).ends_with(kFence)) {
    name = takeUntil(body, "```json");
    body = trimmed(body);
    body.remove_suffix(name ? kFence.size() : 0);
  }
  return name ? addCall(*name, body, calls) : CallReading::kNoCall;
}

const CallForm kDeepSeekForm = {
    .name = "deepseek",
    .signs = {"<｜tool▁call▁begin｜>"},
    .marks = {{{"<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"}}},
    .hidden = {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"},
    .tokens = {"<｜tool▁sep｜>"},
    .needsClose = true,
    .writings = {{{.sign = "```json",
                   .open = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
                   .beforeName = "function<｜tool▁sep｜>",
                   .afterName = "\n```json\n",
                   .afterArguments = "\n```<｜tool▁call▁end｜>",
                   .between = "\n<｜tool▁call▁begin｜>",
                   .end = "<｜tool▁calls▁end｜>"},
                  {.open = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
                   .afterName = "<｜tool▁sep｜>",
                   .afterArguments = "<｜tool▁call▁end｜>",
                   .between = "<｜tool▁call▁begin｜>",
                   .end = "<｜tool▁calls▁end｜>"}}},
    .read = readDeepSeek};

} // namespace moert
