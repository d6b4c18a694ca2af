// Rows of text in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace moec {

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

  /// Each line begins with `indent` and has no trailing spaces.
  std::string text(const std::string &indent) const;

private:
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;
};

} // namespace moec
