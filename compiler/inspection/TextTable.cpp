#include "compiler/inspection/TextTable.h"

#include <algorithm>

namespace moec {

static void appendLine(std::string &text, const std::string &indent,
                       const std::vector<std::string> &cells,
                       const std::vector<TextTable::Column> &columns,
                       const std::vector<size_t> &widths) {
  std::string line = indent;
  for (size_t i = 0; i < columns.size(); ++i) {
    std::string padding(widths[i] - cells[i].size(), ' ');
    line += i == 0 ? "" : "  ";
    line += columns[i].align == TextTable::Align::kLeft ? cells[i] + padding : padding + cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  text += line + "\n";
}

std::string TextTable::text(const std::string &indent) const {
  std::vector<std::string> headings;
  std::vector<size_t> widths;
  for (const Column &column : columns) {
    headings.push_back(column.heading);
    widths.push_back(column.heading.size());
  }
  for (const std::vector<std::string> &row : rows)
    for (size_t i = 0; i < columns.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  if (std::any_of(headings.begin(), headings.end(), [](const auto &h) { return !h.empty(); }))
    appendLine(text, indent, headings, columns, widths);
  for (const std::vector<std::string> &row : rows)
    appendLine(text, indent, row, columns, widths);
  return text;
}

} // namespace moec
