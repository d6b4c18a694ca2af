#include "compiler/report/ReportNumbers.h"

#include <charconv>
#include <cmath>

using moert::JsonWriter;

namespace moec {

std::string numberJson(double value) {
  if (!std::isfinite(value))
    return "null";
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, value);
  return std::string(digits, end.ptr);
}

static void appendValue(std::string &text, const Value &value) {
  if (!value.isText()) {
    text += value.isNumber() ? numberJson(value.number()) : "null";
    return;
  }
  JsonWriter(text).string(value.text());
}

void appendRows(JsonWriter &json, std::string &text,
                const std::vector<const std::vector<Value> *> &rows) {
  json.key("rows").beginArray();
  bool isFirst = true;
  for (const std::vector<Value> *row : rows) {
    text += isFirst ? "[" : ",\n[";
    isFirst = false;
    for (size_t i = 0; i < row->size(); ++i) {
      if (i > 0)
        text += ',';
      appendValue(text, (*row)[i]);
    }
    text += ']';
  }
  json.endArray();
}

} // namespace moec
