// A template from a stranger, and a conversation after it: whatever compiles stays within its
// limits. The input is the template, a zero byte, and the variables as JSON; without them, a
// conversation with a tool.
#include "runtime/text/chat/ChatTemplate.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace {

using Json = nlohmann::ordered_json;

constexpr char kConversation[] = R"({
  "messages": [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Grüße, 世界 🙂\n"},
    {"role": "assistant", "content": "<think>so</think>ok", "reasoning_content": null,
     "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"a": [1, 2.5, true]}}}]},
    {"role": "tool", "content": "{}"}],
  "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters":
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "number"}}}}}}],
  "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"})";

std::tm fixedClock() {
  std::tm moment = {};
  moment.tm_year = 126;
  moment.tm_mday = 1;
  return moment;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Json conversation = Json::parse(kConversation);
  const std::string_view input(reinterpret_cast<const char *>(data), size);
  const size_t end = input.find('\0');
  moert::Result<moert::ChatTemplate> compiled =
      moert::ChatTemplate::compile(std::string(input.substr(0, end)), "fuzz");
  if (!compiled.isOk())
    return 0;
  Json context = conversation;
  if (end != std::string_view::npos)
    context = Json::parse(input.substr(end + 1), nullptr, false);
  moert::TemplateLimits limits;
  limits.steps = 20'000; // Small, so that a run takes milliseconds.
  limits.outputBytes = 1 << 16;
  const moert::Result<std::string> text = compiled->render(context, limits, fixedClock);
  if (text.isOk() && text.value().size() > limits.outputBytes)
    std::abort();
  return 0;
}
