#include "tools/moert/chat/ChatScreen.h"

#include "runtime/base/Excerpt.h"
#include "tools/console/OutputStream.h"

#include <algorithm>
#include <cstdlib>
#include <sys/ioctl.h>
#include <unistd.h>

namespace moert::cli {

/// NO_COLOR is a convention of terminal programs: no escape sequences.
static bool takesEscapes() {
  const char *noColour = std::getenv("NO_COLOR");
  const char *terminal = std::getenv("TERM");
  return !(noColour && *noColour) && !(terminal && std::string_view(terminal) == "dumb");
}

/// 0 if it is unknown.
static size_t terminalColumns() {
  winsize size = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static bool isCharacter(char byte) {
  return (byte & 0xC0) != 0x80; // The first byte of one.
}

/// Where the second column begins, if a line has two and the second has the larger part.
static size_t indentOf(std::string_view line, size_t columns) {
  const size_t gap = line.find("  ");
  const size_t second = line.find_first_not_of(' ', gap);
  return gap == 0 || gap == std::string_view::npos || second == std::string_view::npos ||
                 second > columns / 2
             ? 0
             : second;
}

/// The byte after the first `characters` characters.
static size_t endOf(std::string_view text, size_t characters) {
  size_t end = 0;
  for (; end < text.size(); ++end)
    if (isCharacter(text[end]) && characters-- == 0)
      break;
  return end;
}

static void wrapLine(std::string_view line, size_t columns, std::string &out) {
  const size_t indent = indentOf(line, columns);
  size_t width = columns, least = indent; // No break in the gap between two columns.
  for (size_t end; (end = endOf(line, width)) < line.size(); width = columns - indent, least = 0) {
    const size_t space = line.rfind(' ', end);
    if (space != std::string_view::npos && space > least)
      end = space;
    out += line.substr(0, end);
    line.remove_prefix(std::min(line.find_first_not_of(' ', end), line.size()));
    out += "\n" + std::string(indent, ' ');
  }
  out += line;
}

std::string wrapped(std::string_view text, size_t columns) {
  if (columns == 0)
    return std::string(text);
  std::string out;
  while (true) {
    const size_t end = std::min(text.find('\n'), text.size());
    wrapLine(text.substr(0, end), columns, out);
    if (end == text.size())
      return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

ChatScreen::ChatScreen(ReasoningView view)
    : reasoningView(view), isTerminal(isOutputTerminal()), canDim(isTerminal && takesEscapes()) {}

void ChatScreen::write(std::string_view text) {
  // A model's text may hold escape sequences, which a terminal would execute.
  if (failure.isOk())
    failure = writeOutput(isTerminal ? printable(text) : std::string(text));
}

void ChatScreen::setDim(bool dim) {
  if (!canDim || isDim == dim || !failure.isOk())
    return;
  failure = writeOutput(dim ? "\x1b[2m" : "\x1b[0m");
  isDim = dim;
}

void ChatScreen::show(AnswerPart part, std::string_view text) {
  if (part == AnswerPart::kReasoning) {
    if (reasoningView == ReasoningView::kHide)
      return;
    setDim(reasoningView == ReasoningView::kDim);
    hasReasoned = true;
  } else {
    setDim(false);
    if (hasReasoned)
      write("\n\n");
    hasReasoned = false;
  }
  hasText = true;
  write(text);
}

void ChatScreen::endAnswer() {
  setDim(false);
  if (hasText || !isTerminal) // A pipe receives an empty line for an empty answer.
    write("\n");
  hasReasoned = hasText = false;
}

void ChatScreen::notice(std::string_view text) {
  const std::string lines = printable(text);
  if (!isTerminal) {
    writeError(lines + "\n");
    return;
  }
  setDim(true);
  if (failure.isOk())
    failure = writeOutput(wrapped(lines, terminalColumns()) + "\n");
  setDim(false);
}

} // namespace moert::cli
