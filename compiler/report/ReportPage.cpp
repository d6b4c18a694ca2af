// A report as one HTML page that needs no other file: tables for reading without a script, and
// pictures that Vega draws from the same data (page/draw.js).
#include "compiler/picture/SvgWriter.h"
#include "compiler/report/MakeReport.h"
#include "compiler/report/PageParts.h"
#include "compiler/report/ReportNumbers.h"
#include "runtime/base/JsonWriter.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

using namespace moert;

namespace moec {

std::string_view pagePart(std::string_view name) {
  return std::ranges::find(pageParts(), name, &PagePart::name)->text;
}

//===-- Tables --------------------------------------------------------------------------------===//

// SvgWriter's escaping serves HTML too: text and attributes in double quotes.
static std::string escaped(std::string_view text) {
  return escapeXml(text);
}

constexpr size_t kLong = 24; // Such a text may wrap, but not after each word.

static std::string cellHtml(const Value &value, Unit unit, std::string_view attributes = "") {
  if (!value.isNumber()) {
    const std::string text = shownText(value, unit);
    const char *kind = text.size() > kLong ? " class=long" : unit != Unit::kNone ? " class=n" : "";
    return strCat("<td", kind, attributes, ">", escaped(text), "</td>");
  }
  return strCat("<td", attributes, " data-v=\"", numberJson(value.number()), "\">",
                escaped(shownText(value, unit)), "</td>");
}

/// Breaks lines between words alone, not after their hyphens.
static std::string wordsHtml(const std::string &text) {
  std::string html = "<span>";
  for (char c : escaped(text))
    html += c == ' ' ? std::string("</span> <span>") : std::string(1, c);
  return html + "</span>";
}

/// A command with what it does, in one cell, so that it has the page's width.
static std::string commandHtml(const Fact &fact) {
  return strCat("<table class=command><tbody><tr><td data-fact=\"", fact.id, "\">",
                escaped(fact.label), "<pre>", wordsHtml(shownText(fact.value, fact.unit)),
                "</pre></td></tr></tbody></table>\n");
}

static std::string factsHtml(const std::vector<Fact> &facts) {
  std::string html;
  for (const Fact &fact : facts)
    if (fact.unit == Unit::kCommand)
      html += commandHtml(fact);
  html += "<table class=facts><tbody>\n";
  for (const Fact &fact : facts)
    if (fact.unit != Unit::kCommand)
      html += strCat("<tr><th scope=row>", escaped(fact.label), "</th>",
                     cellHtml(fact.value, fact.unit, strCat(" data-fact=\"", fact.id, "\"")),
                     "<td class=origin title=\"", escaped(fact.source.from), "\">",
                     nameOf(fact.source.origin), "</td></tr>\n");
  return html + "</tbody></table>\n";
}

namespace {

/// The rows that the page has of a table: all, or every n-th group of rows with the same first
/// value, so that a heat map has whole layers.
struct PageRows {
  std::vector<const std::vector<Value> *> rows;
  size_t every = 1;
};

} // namespace

static PageRows pageRows(const Table &table) {
  PageRows page;
  page.every = std::max<size_t>(1, (table.rows.size() + kMostPageRows - 1) / kMostPageRows);
  size_t group = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    group += i > 0 && !(table.rows[i][0] == table.rows[i - 1][0]);
    if (group % page.every == 0)
      page.rows.push_back(&table.rows[i]);
  }
  return page;
}

static std::string originHtml(Origin origin) {
  return strCat(" <span class=origin>", nameOf(origin), "</span>");
}

/// The origin of all numbers, where they have the same.
static std::optional<Origin> commonOrigin(const Table &table) {
  std::optional<Origin> common;
  for (const Column &column : table.columns) {
    if (column.source.from.empty())
      continue;
    if (common && *common != column.source.origin)
      return std::nullopt;
    common = column.source.origin;
  }
  return common;
}

/// Narrow screens show its rows one below the other, with labels in the cells.
static bool isWide(const Table &table) {
  constexpr size_t kMostColumns = 5;
  return !table.isDetail && (table.columns.size() > kMostColumns ||
                             std::ranges::any_of(table.rows, [](const std::vector<Value> &row) {
                               return std::ranges::any_of(row, [](const Value &value) {
                                 return value.isText() && value.text().size() > kLong;
                               });
                             }));
}

static std::string headingHtml(const Column &column, bool hasOrigin) {
  std::string html = strCat("<th scope=col", column.unit == Unit::kNone ? "" : " class=n");
  if (!column.source.from.empty())
    html += strCat(" title=\"", escaped(column.source.from), "\"");
  html += strCat(">", escaped(column.label));
  if (hasOrigin && !column.source.from.empty())
    html += originHtml(column.source.origin);
  return html + "</th>";
}

static std::string tableHtml(const Table &table) {
  const PageRows page = pageRows(table);
  const std::optional<Origin> common = commonOrigin(table);
  std::string html = strCat("<details", table.isDetail ? "" : " open", "><summary>",
                            escaped(table.title), common ? originHtml(*common) : "", "</summary>");
  std::string note = table.note;
  if (page.every > 1)
    note += strCat(note.empty() ? "" : " ", "Thinned: the page has the rows of every ", page.every,
                   "th", " ", table.columns[0].label, "; --json has all.");
  if (!note.empty())
    html += strCat("<p class=note>", escaped(note), "</p>");
  html += strCat("<div class=scroll><table", isWide(table) ? " class=wide" : "", " data-table=\"",
                 table.id, "\"><thead><tr>");
  for (const Column &column : table.columns)
    html += headingHtml(column, !common);
  html += "</tr></thead><tbody>\n";
  std::vector<std::string> labels(table.columns.size());
  for (size_t i = 0; isWide(table) && i < labels.size(); ++i)
    labels[i] = strCat(" data-label=\"", escaped(table.columns[i].label), "\"");
  for (const std::vector<Value> *row : page.rows) {
    html += "<tr>";
    for (size_t i = 0; i < row->size(); ++i)
      html += cellHtml((*row)[i], table.columns[i].unit, labels[i]);
    html += "</tr>\n";
  }
  return html + "</tbody></table></div></details>\n";
}

//===-- Pictures ------------------------------------------------------------------------------===//

namespace {

/// The unit of an axis, and what a number of the JSON is divided by to have it.
struct DrawnUnit {
  double divisor = 1;
  const char *name = "";
};

/// For numbers up to `most`: the unit that the tables show the largest in.
DrawnUnit drawnUnit(Unit unit, double most) {
  switch (unit) {
  case Unit::kFraction:
    return {0.01, "%"};
  case Unit::kBytes:
    return {1 << 20, "MiB"};
  case Unit::kNs:
    return {1e6, "ms"};
  case Unit::kTokensPerSecond:
    return {1, "tokens/s"};
  case Unit::kBytesPerSecond:
    return most >= 1e9 ? DrawnUnit{1e9, "GB/s"} : DrawnUnit{1e6, "MB/s"};
  case Unit::kNone:
  case Unit::kCommand:
  case Unit::kCount:
  case Unit::kBits:
  case Unit::kNats:
  case Unit::kRatio:
    break;
  }
  return {};
}

} // namespace

static double largestOf(const Table &table, size_t column) {
  double most = 0;
  for (const std::vector<Value> &row : table.rows)
    if (row[column].isNumber())
      most = std::max(most, row[column].number());
  return most;
}

/// The divisor of the column's numbers.
static double writeField(JsonWriter &json, const std::string &name, const Table &table,
                         const std::string &columnId, const char *scale = "") {
  const auto column = std::ranges::find(table.columns, columnId, &Column::id);
  if (column == table.columns.end())
    return 1;
  const DrawnUnit unit =
      drawnUnit(column->unit, largestOf(table, size_t(column - table.columns.begin())));
  const bool hasUnit = *unit.name && column->label.find(unit.name) == std::string::npos;
  json.key(name + "Field").string(columnId);
  json.key(name + "Title")
      .string(strCat(column->label, hasUnit ? ", " : "", hasUnit ? unit.name : "", scale));
  json.key(name + "Unit").number(unit.divisor);
  return unit.divisor;
}

static void writePicture(JsonWriter &json, const Picture &picture, const Section &section) {
  const Table &table = *findTable(section, picture.table);
  json.key(picture.id).beginObject();
  json.key("title").string(picture.title);
  json.key("description").string(picture.description);
  json.key("specification").string(picture.specification);
  json.key("table").string(picture.table);
  json.key("fields").beginObject();
  writeField(json, "x", table, picture.x, picture.isLogarithmic ? " (logarithmic)" : "");
  const double yUnit = writeField(json, "y", table, picture.y);
  writeField(json, "series", table, picture.series);
  const auto limit = std::ranges::find(section.facts, picture.limit, &Fact::id);
  json.key("limit").number(limit == section.facts.end() || !limit->value.isNumber()
                               ? std::numeric_limits<double>::quiet_NaN() // Becomes null.
                               : limit->value.number() / yUnit);
  json.key("xScale").string(picture.isLogarithmic ? "log" : "linear");
  json.endObject();
  json.endObject();
}

/// The rows as the page's table has them.
static void writeRows(JsonWriter &json, std::string &text, const Table &table) {
  json.key(table.id).beginObject();
  json.key("columns").beginArray();
  for (const Column &column : table.columns)
    json.string(column.id);
  json.endArray();
  appendRows(json, text, pageRows(table).rows);
  json.endObject();
}

static std::string dataJson(const Report &report) {
  std::string text;
  JsonWriter json(text);
  std::set<std::string> written;
  json.beginObject();
  json.key("pictures").beginObject();
  for (const Section &section : report.sections)
    for (const Picture &picture : section.pictures)
      writePicture(json, picture, section);
  json.endObject();
  json.key("tables").beginObject();
  for (const Section &section : report.sections)
    for (const Picture &picture : section.pictures)
      if (written.insert(picture.table).second)
        writeRows(json, text, *findTable(section, picture.table));
  json.endObject();
  json.endObject();
  // Within a script element, "<" could end it.
  std::string safe;
  for (char c : text)
    safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

static std::string specificationsJson() {
  std::string text;
  for (const PagePart &part : pageParts())
    if (part.name.ends_with(".json"))
      text += strCat(text.empty() ? "" : ",\n", "\"", part.name.substr(0, part.name.size() - 5),
                     "\": ", part.text);
  return strCat("{", text, "}");
}

static std::string picturesHtml(const std::vector<Picture> &pictures) {
  if (pictures.empty())
    return "";
  std::string html = "<div class=pictures>\n";
  for (const Picture &picture : pictures)
    html += strCat("<figure data-picture=\"", picture.id, "\"><figcaption><b>",
                   escaped(picture.title), "</b>", escaped(picture.description),
                   "</figcaption><div class=picture></div></figure>\n");
  return html + "</div>\n";
}

//===-- The page ------------------------------------------------------------------------------===//

static std::string sectionHtml(const Section &section) {
  std::string html =
      strCat("<section id=\"", section.id, "\"><h2>", escaped(section.title), "</h2>\n");
  bool isFirst = section.id.ends_with("verdict") || section.id == "compare";
  for (const std::string &sentence : section.sentences) {
    html += strCat("<p", isFirst ? " class=first" : "", ">", escaped(sentence), "</p>\n");
    isFirst = false;
  }
  if (!section.facts.empty())
    html += factsHtml(section.facts);
  html += picturesHtml(section.pictures);
  for (const Table &table : section.tables)
    if (!table.rows.empty())
      html += tableHtml(table);
  return html + "</section>\n";
}

std::string reportPage(const Report &report) {
  std::string html = strCat(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n"
      "<meta name=viewport content=\"width=device-width,initial-scale=1\">\n"
      // Proves that the page loads nothing; Vega compiles expressions, which needs unsafe-eval.
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data:\">\n<title>",
      escaped(report.title), "</title>\n<style>\n", pagePart("page.css"),
      "</style></head><body>\n<header><h1>", escaped(report.title), "</h1>\n<nav>");
  for (const Section &section : report.sections)
    html += strCat("<a href=\"#", section.id, "\">", escaped(section.title), "</a>\n");
  html += "</nav>\n<p class=note>Every number is measured, derived, stated or assumed, as the word "
          "beside it, its column or its table says. Point at the word or the column's name for "
          "where it comes "
          "from, at a mark of a picture for its number.</p></header>\n<main>\n";
  for (const Section &section : report.sections)
    html += sectionHtml(section);
  html +=
      strCat("</main>\n<noscript><p class=note>Pictures need JavaScript; the tables have the "
             "same numbers.</p></noscript>\n<script type=\"application/json\" id=data>",
             dataJson(report), "</script>\n<script type=\"application/json\" id=specifications>",
             specificationsJson(), "</script>\n<script>\n", pagePart("vega.js"),
             "</script>\n<script>\n", pagePart("draw.js"), "</script>\n</body></html>\n");
  return html;
}

} // namespace moec
