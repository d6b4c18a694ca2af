// A report as text for a terminal.
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"
#include "compiler/report/MakeReport.h"
#include "runtime/base/Excerpt.h"
#include "runtime/base/ShellCommand.h"

#include <algorithm>

using namespace moert;

namespace moec {

constexpr size_t kLeastColumns = 40;
constexpr size_t kIndentColumns = std::string_view(kIndent).size();

/// Names of files and models may contain any bytes.
static std::string oneLine(std::string_view text) {
  std::string line = printable(text);
  std::ranges::replace_if(
      line, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return line;
}

static std::string cellText(const Value &value, Unit unit) {
  return oneLine(shownText(value, unit));
}

/// Commands first, each after what it does.
static std::string factsText(const std::vector<Fact> &facts, size_t columns) {
  std::string text;
  TextTable table({{"", TextTable::Align::kLeft},
                   {"", TextTable::Align::kLeft},
                   {"", TextTable::Align::kLeft}});
  for (const Fact &fact : facts)
    if (fact.unit == Unit::kCommand)
      text += strCat("\n", paragraph(oneLine(fact.label) + ":", kIndent, columns), kIndent,
                     wrappedCommand(cellText(fact.value, fact.unit), columns - kIndentColumns));
    else
      table.addRow({oneLine(fact.label), cellText(fact.value, fact.unit),
                    std::string(nameOf(fact.source.origin))});
  const std::string lines = table.text(kIndent, columns);
  return lines.empty() ? text : strCat(text, "\n", lines);
}

static std::string tableText(const Table &table, size_t columns) {
  if (table.rows.empty())
    return "";
  if (table.isDetail)
    return strCat("\n", paragraph(strCat(table.title, ": ", table.rows.size(), " rows, see --json"),
                                  kIndent, columns));
  std::vector<TextTable::Column> headings;
  for (const Column &column : table.columns)
    headings.push_back({oneLine(column.label), column.unit == Unit::kNone
                                                   ? TextTable::Align::kLeft
                                                   : TextTable::Align::kRight});
  TextTable rows(headings);
  for (const std::vector<Value> &row : table.rows) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < row.size(); ++i)
      cells.push_back(cellText(row[i], table.columns[i].unit));
    rows.addRow(std::move(cells));
  }
  return strCat("\n", paragraph(table.title + ":", kIndent, columns), rows.text(kIndent, columns),
                table.note.empty() ? "" : paragraph(oneLine(table.note), kIndent, columns));
}

std::string reportText(const Report &report, size_t columns) {
  columns = std::max(columns, kLeastColumns);
  std::string text = oneLine(report.title) + "\n";
  for (const Section &section : report.sections) {
    text += strCat("\n", section.title, "\n");
    for (const std::string &sentence : section.sentences)
      text += paragraph(oneLine(sentence), kIndent, columns);
    if (!section.facts.empty())
      text += factsText(section.facts, columns);
    for (const Table &table : section.tables)
      text += tableText(table, columns);
  }
  return text;
}

} // namespace moec
