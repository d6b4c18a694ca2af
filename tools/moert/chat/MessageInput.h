// Messages from lines of input. A line is a message; one that ends in a backslash continues on the
// next line, and """ begins and ends a message of any lines. A message that begins with / is a
// command, unless it is within """. Pasted text is a line that has line breaks: a message, no
// command.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moert::cli {

struct InputMessage {
  std::string text;
  bool isCommand = false;
};

/// Used by one thread.
class MessageInput {
public:
  /// Adds a line, without its last line break. Returns the message that it completes; lines of
  /// white space complete none.
  std::optional<InputMessage> addLine(std::string_view line);

  /// The end of the input: the message that its last lines began, if any.
  std::optional<InputMessage> finish();

  /// Whether the next line continues a message.
  bool isContinued() const { return isBlock || hasLines; }
  /// Bytes of the message so far.
  size_t size() const { return text.size(); }
  /// Gives up the lines so far.
  void clear();

private:
  std::optional<InputMessage> complete(bool wasBlock);

  std::string text;
  bool isBlock = false;  // Between """ and """.
  bool hasLines = false; // After a line that ended in a backslash.
};

} // namespace moert::cli
