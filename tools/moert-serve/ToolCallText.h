// Separates calls of tools from a model's text while it is generated. Recognized is the form of the
// Qwen, Hermes and GLM families: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, once or
// more, after the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moert::serve {

struct ToolCall {
  std::string name, arguments; // Arguments as JSON.
};

/// Owned by one answer, used by one thread.
class ToolCallText {
public:
  static constexpr std::string_view kBegin = "<tool_call>", kEnd = "</tool_call>";
  /// How the templates of these families begin a call.
  static constexpr std::string_view kFirstLine = "<tool_call>\n";

  /// Returns the text that is no part of a call.
  std::string feed(std::string_view text);
  /// The end of the answer: returns the text that was held back and was no call after all.
  std::string finish();
  /// Final after finish().
  const std::vector<ToolCall> &calls() const { return found; }

private:
  bool readCalls();

  std::string held; // Begins with kBegin, or may be the beginning of it.
  std::vector<ToolCall> found;
};

} // namespace moert::serve
