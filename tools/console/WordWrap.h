// Breaks text at a terminal's width while it is generated. The last word is held back until its end
// is known, so that none begins on one line and ends on the next.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moert::cli {

/// The text since the last reset() or line break. Columns are those of the C library's wcwidth(),
/// which needs a locale of UTF-8 for other than ASCII.
class WordWrap {
public:
  /// Takes whole characters, none of them a control character but line breaks and tabs. Returns
  /// what can be written now. 0 columns: any number.
  std::string feed(std::string_view text, size_t columns);
  /// The word that was held back. The line goes on.
  std::string flush(size_t columns);
  /// The next text begins a line.
  void reset();

private:
  void takeWord(size_t columns, std::string &out);

  std::string word;
  size_t wordColumns = 0;
  size_t spaces = 0; // Before the word; dropped where the line breaks.
  size_t column = 0; // Where the line ends.
};

} // namespace moert::cli
