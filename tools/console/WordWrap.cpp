#include "tools/console/WordWrap.h"

#include "runtime/base/Utf8.h"

#include <algorithm>
#include <wchar.h>

namespace moert::cli {

constexpr size_t kTabColumns = 8;

static size_t columnsOf(uint32_t codePoint) {
  const int columns = ::wcwidth(static_cast<wchar_t>(codePoint));
  return columns < 0 ? 1 : static_cast<size_t>(columns);
}

void WordWrap::takeWord(size_t columns, std::string &out) {
  if (word.empty())
    return;
  if (column > 0 && column + spaces + wordColumns > columns) {
    out += '\n';
    column = spaces = 0;
  }
  spaces = std::min(
      spaces, columns - std::min(wordColumns, columns)); // An indented line may have too many.
  out.append(spaces, ' ');
  out += word;
  column += spaces + wordColumns;
  spaces = wordColumns = 0;
  word.clear();
}

std::string WordWrap::feed(std::string_view text, size_t columns) {
  if (columns == 0)
    return flush(columns) + std::string(text);
  std::string out;
  while (!text.empty()) {
    const uint32_t length = std::min<uint32_t>(utf8Length(text[0]), uint32_t(text.size()));
    const std::string_view character = text.substr(0, length);
    text.remove_prefix(length);
    if (character == "\n") {
      takeWord(columns, out);
      out += '\n';
      column = spaces = 0;
    } else if (character == " " || character == "\t") {
      takeWord(columns, out);
      const size_t at = column + spaces;
      spaces += character == " " ? 1 : kTabColumns - at % kTabColumns;
    } else {
      const size_t width = columnsOf(firstCodePoint(character).value);
      const bool isWide = width > 1; // Words of such have no spaces between them.
      if (isWide || wordColumns + width > columns)
        takeWord(columns, out);
      word += character;
      wordColumns += width;
      if (isWide)
        takeWord(columns, out);
    }
  }
  return out;
}

std::string WordWrap::flush(size_t columns) {
  std::string out;
  takeWord(columns == 0 ? SIZE_MAX : columns, out);
  return out;
}

void WordWrap::reset() {
  word.clear();
  wordColumns = spaces = column = 0;
}

} // namespace moert::cli
