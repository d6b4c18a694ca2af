// A report as text for a terminal.
#include "compiler/inspection/InspectSections.h"
#include "compiler/inspection/TextTable.h"
#include "compiler/report/MakeReport.h"
#include "runtime/base/Excerpt.h"

#include <algorithm>

using namespace moert;

namespace moec {

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

/// Lines of at most 100 columns, unless a word is longer.
static std::string wrapped(const std::string &text, const std::string &indent) {
  constexpr size_t kColumns = 100;
  std::string out, line;
  for (size_t at = 0; at < text.size();) {
    const size_t space = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, space - at);
    at = space + 1;
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > kColumns) {
      out += indent + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + indent + line + "\n";
}

static std::string factsText(const std::vector<Fact> &facts) {
  TextTable table({{"", TextTable::Align::kLeft},
                   {"", TextTable::Align::kLeft},
                   {"", TextTable::Align::kLeft}});
  for (const Fact &fact : facts)
    table.addRow({oneLine(fact.label), cellText(fact.value, fact.unit),
                  std::string(originName(fact.source.origin))});
  return table.text(kIndent);
}

static std::string tableText(const Table &table) {
  if (table.rows.empty())
    return "";
  std::string text = strCat("\n", kIndent, table.title, ":\n");
  if (table.isDetail)
    return strCat("\n", kIndent, table.title, ": ", table.rows.size(), " rows, see --json\n");
  std::vector<TextTable::Column> columns;
  for (const Column &column : table.columns)
    columns.push_back({oneLine(column.label), column.unit == Unit::kNone
                                                  ? TextTable::Align::kLeft
                                                  : TextTable::Align::kRight});
  TextTable rows(columns);
  for (const std::vector<Value> &row : table.rows) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < row.size(); ++i)
      cells.push_back(cellText(row[i], table.columns[i].unit));
    rows.addRow(std::move(cells));
  }
  text += rows.text(kIndent);
  return table.note.empty() ? text : text + wrapped(oneLine(table.note), kIndent);
}

std::string reportText(const Report &report) {
  std::string text = oneLine(report.title) + "\n";
  for (const Section &section : report.sections) {
    text += strCat("\n", section.title, "\n");
    for (const std::string &sentence : section.sentences)
      text += wrapped(oneLine(sentence), kIndent);
    if (!section.facts.empty())
      text += strCat(section.sentences.empty() ? "" : "\n", factsText(section.facts));
    for (const Table &table : section.tables)
      text += tableText(table);
  }
  return text;
}

} // namespace moec
