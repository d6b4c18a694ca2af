#include "tools/console/WrappedLines.h"

#include "tools/console/OutputStream.h"

#include <algorithm>
#include <sys/ioctl.h>
#include <unistd.h>

namespace moert::cli {

size_t terminalColumns(int file) {
  winsize size = {};
  return ::ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
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

std::string wrappedLines(std::string_view text, size_t columns) {
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

void writeErrorLines(std::string_view text) {
  writeError(wrappedLines(text, terminalColumns(STDERR_FILENO)));
}

} // namespace moert::cli
