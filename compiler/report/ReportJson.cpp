// A report as JSON: every number with its unit, its origin and where it comes from.
#include "compiler/report/MakeReport.h"
#include "compiler/report/ReportNumbers.h"
#include "runtime/base/JsonWriter.h"

#include <limits>

using namespace moert;

namespace moec {

static void writeValue(JsonWriter &json, const Value &value) {
  if (value.isText())
    json.string(value.text());
  else
    json.number(value.isNumber() ? value.number() : std::numeric_limits<double>::quiet_NaN());
}

static void writeSource(JsonWriter &json, Unit unit, const Source &source) {
  if (!unitName(unit).empty())
    json.key("unit").string(unitName(unit));
  if (source.from.empty())
    return;
  json.key("origin").string(nameOf(source.origin));
  json.key("source").string(source.from);
}

static void writeFacts(JsonWriter &json, const std::vector<Fact> &facts) {
  json.key("facts").beginArray();
  for (const Fact &fact : facts) {
    json.beginObject();
    json.key("id").string(fact.id);
    json.key("label").string(fact.label);
    json.key("value");
    writeValue(json, fact.value);
    writeSource(json, fact.unit, fact.source);
    json.endObject();
  }
  json.endArray();
}

static void writeTable(JsonWriter &json, std::string &text, const Table &table) {
  json.beginObject();
  json.key("id").string(table.id);
  json.key("title").string(table.title);
  json.key("columns").beginArray();
  for (const Column &column : table.columns) {
    json.beginObject();
    json.key("id").string(column.id);
    json.key("label").string(column.label);
    writeSource(json, column.unit, column.source);
    json.endObject();
  }
  json.endArray();
  std::vector<const std::vector<Value> *> rows;
  for (const std::vector<Value> &row : table.rows)
    rows.push_back(&row);
  appendRows(json, text, rows);
  if (!table.note.empty())
    json.key("note").string(table.note);
  json.endObject();
}

std::string reportJson(const Report &report) {
  std::string text;
  JsonWriter json(text);
  json.beginObject();
  json.key("version").number(uint32_t(1));
  json.key("title").string(report.title);
  json.key("sections").beginArray();
  for (const Section &section : report.sections) {
    json.beginObject();
    json.key("id").string(section.id);
    json.key("title").string(section.title);
    json.key("sentences").beginArray();
    for (const std::string &sentence : section.sentences)
      json.string(sentence);
    json.endArray();
    writeFacts(json, section.facts);
    json.key("tables").beginArray();
    for (const Table &table : section.tables)
      writeTable(json, text, table);
    json.endArray();
    json.endObject();
  }
  json.endArray();
  json.endObject();
  return text + "\n";
}

} // namespace moec
