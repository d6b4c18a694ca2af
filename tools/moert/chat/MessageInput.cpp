#include "tools/moert/chat/MessageInput.h"

namespace moert::cli {

static constexpr std::string_view kQuotes = "\"\"\"";
static constexpr std::string_view kSpace = " \t\r\n";

void MessageInput::clear() {
  text.clear();
  isBlock = hasLines = false;
}

std::optional<InputMessage> MessageInput::complete(bool wasBlock) {
  InputMessage message{text, !wasBlock && text.starts_with('/')};
  clear();
  if (message.text.find_first_not_of(kSpace) == std::string::npos)
    return std::nullopt;
  return message;
}

std::optional<InputMessage> MessageInput::addLine(std::string_view line) {
  if (line.ends_with('\r')) // A file from Windows.
    line.remove_suffix(1);
  const bool begins = !isContinued() && line.starts_with(kQuotes);
  if (begins) {
    isBlock = true;
    line.remove_prefix(kQuotes.size());
    if (line.empty())
      return std::nullopt;
  }
  if (isBlock) {
    if (line.ends_with(kQuotes)) {
      text += line.substr(0, line.size() - kQuotes.size());
      if (text.ends_with('\n')) // The line break before quotes on a line of their own.
        text.pop_back();
      return complete(true);
    }
    text += line;
    text += '\n';
    return std::nullopt;
  }
  if (line.ends_with('\\')) {
    text += line.substr(0, line.size() - 1);
    text += '\n';
    hasLines = true;
    return std::nullopt;
  }
  text += line;
  return complete(line.find('\n') != std::string_view::npos);
}

std::optional<InputMessage> MessageInput::finish() {
  if (text.ends_with('\n'))
    text.pop_back();
  return complete(isBlock);
}

} // namespace moert::cli
