// Any text as an answer, in a format that the first byte chooses: the pieces are the answer, they
// do not depend on how it is cut, and the arguments of calls are JSON.
#include "runtime/text/answer/AnswerReader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>

using namespace moert;

namespace {

constexpr std::array kTemplates = {"",
                                   "<tool_call>",
                                   "<TOOLCALL>",
                                   "<|tool_call|>",
                                   "<tool_calls>",
                                   "<|python_tag|>",
                                   "<function=",
                                   "<seed:tool_call><seed:think>",
                                   "<arg_key>",
                                   "<minimax:tool_call>",
                                   "｜DSML｜",
                                   "[TOOL_CALLS]",
                                   "<｜tool▁call▁begin｜>",
                                   "<|tool_call_begin|>",
                                   "<|message|>",
                                   "<|header_start|>",
                                   "<|tool_list_start|>",
                                   "<|tool_call><|turn>",
                                   "<start_function_call>",
                                   "thought process <response>"};

struct Reading {
  std::string raw, content, reasoning, calls;

  bool operator==(const Reading &) const = default;
};

Reading read(const AnswerFormat &format, std::string_view answer, size_t pieceBytes) {
  const ToolTypes types;
  AnswerReader reader(format, "", format.calls(), &types);
  Reading result;
  const auto keep = [&](AnswerPart part, std::string_view text, const ToolCall *call) {
    result.raw += text;
    if (part == AnswerPart::kAnswer)
      result.content += text;
    if (part == AnswerPart::kReasoning)
      result.reasoning += text;
    if (!call)
      return;
    if (!nlohmann::json::accept(call->arguments))
      std::abort();
    result.calls += call->name + call->arguments;
  };
  for (size_t at = 0; at < answer.size(); at += pieceBytes) {
    reader.feed(answer.substr(at, pieceBytes), keep);
    (void)reader.begunCalls();
  }
  reader.finish(keep);
  return result;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const std::string_view answer(reinterpret_cast<const char *>(data) + 1, size - 1);
  const AnswerFormat format(kTemplates[data[0] % kTemplates.size()]);
  const Reading whole = read(format, answer, size);
  if (whole.raw != answer || !(whole == read(format, answer, 1)))
    std::abort();
  return 0;
}
