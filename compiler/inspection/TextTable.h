// Rows of text in aligned columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace moec {

/// A text broken at spaces to lines of at most `width` characters, unless a word is longer; at
/// least one line.
std::vector<std::string> linesOf(const std::string &text, size_t width);

/// A text broken like that, each line after `indent` and with a line break.
std::string paragraph(const std::string &text, const std::string &indent, size_t width);

/// For one thread. Columns are as wide as their widest cell and two spaces apart.
class TextTable {
public:
  enum class Align { kLeft, kRight };

  /// One per column. A heading may be empty.
  struct Column {
    std::string heading;
    Align align = Align::kRight;
  };
  explicit TextTable(std::vector<Column> tableColumns) : columns(std::move(tableColumns)) {}

  /// Needs one cell per column.
  void addRow(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }

  /// Each line begins with `indent` and has no trailing spaces. Headings and left-aligned cells are
  /// broken at spaces to fit lines of `width` characters; columns that still do not fit follow in a
  /// block below, which begins with the first column again.
  std::string text(const std::string &indent, size_t width = SIZE_MAX) const;

private:
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

} // namespace moec
