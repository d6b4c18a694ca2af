// JSON as Python's json.dumps() writes it; declared in Printing.h.
#include "runtime/base/Utf8.h"
#include "runtime/chat/Operators.h"
#include "runtime/chat/Printing.h"

#include <algorithm>
#include <cmath>

namespace moert::chat {

namespace {

void appendUnicodeEscape(uint32_t unit, std::string &out) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", unit);
  out += text;
}

void appendCharacter(std::string_view bytes, uint32_t value, bool isAscii, std::string &out) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
  const size_t place = value < 0x80 ? kEscaped.find(static_cast<char>(value)) : kEscaped.npos;
  if (place != kEscaped.npos)
    out.append(1, '\\').append(1, kLetters[place]);
  else if (value < 0x20)
    appendUnicodeEscape(value, out);
  else if (!isAscii || value < 0x7F)
    out.append(bytes);
  else if (value < 0x10000)
    appendUnicodeEscape(value, out);
  else { // A surrogate pair.
    appendUnicodeEscape(0xD800 + ((value - 0x10000) >> 10), out);
    appendUnicodeEscape(0xDC00 + ((value - 0x10000) & 0x3FF), out);
  }
}

std::string quotedJson(std::string_view text, bool isAscii) {
  std::string quoted = "\"";
  for (size_t at = 0; at < text.size();) {
    const CodePoint character = firstCodePoint(text.substr(at));
    appendCharacter(text.substr(at, character.length), character.value, isAscii, quoted);
    at += character.length;
  }
  return quoted += '"';
}

std::string jsonNumber(double number) {
  if (std::isnan(number))
    return "NaN";
  if (std::isinf(number))
    return number < 0 ? "-Infinity" : "Infinity";
  return floatText(number);
}

/// What is no collection; null for the others.
std::optional<std::string> scalarJson(const Value &value, bool isAscii) {
  switch (value.kind()) {
  case Kind::kNone:
    return "null";
  case Kind::kBoolean:
    return value.boolean() ? "true" : "false";
  case Kind::kInteger:
    return std::to_string(value.integer());
  case Kind::kFloat:
    return jsonNumber(value.number());
  case Kind::kText:
    return quotedJson(value.text(), isAscii);
  default:
    return std::nullopt;
  }
}

class JsonText {
public:
  JsonText(const JsonStyle &jsonStyle, TextBuilder &builder) : style(jsonStyle), out(builder) {}

  Status append(const Value &value) {
    if (std::optional<std::string> scalar = scalarJson(value, style.isAscii))
      return out.append(*scalar);
    if (value.isDict())
      return appendObject(*value.dict());
    if (value.isSequence() && value.sequence()->kind <= SequenceKind::kTuple)
      return appendArray(value.sequence()->items);
    return invalidInput("Object of type ", value.typeName(), " is not JSON serializable");
  }

private:
  Status beginItem(bool isFirst) {
    if (!isFirst)
      MOERT_RETURN_IF_ERROR(out.append(style.itemSeparator));
    return newLine();
  }
  Status newLine() {
    if (!style.isIndented)
      return {};
    MOERT_RETURN_IF_ERROR(out.append("\n"));
    return out.repeat(style.indent, level);
  }

  Status appendArray(const std::vector<Value> &items) {
    if (items.empty())
      return out.append("[]");
    MOERT_RETURN_IF_ERROR(out.append("["));
    ++level;
    for (size_t i = 0; i < items.size(); ++i) {
      MOERT_RETURN_IF_ERROR(beginItem(i == 0));
      MOERT_RETURN_IF_ERROR(append(items[i]));
    }
    --level;
    MOERT_RETURN_IF_ERROR(newLine());
    return out.append("]");
  }

  Status appendObject(const Dict &dict) {
    if (dict.entries.empty())
      return out.append("{}");
    MOERT_ASSIGN_OR_RETURN(std::vector<size_t> order, entryOrder(dict));
    MOERT_RETURN_IF_ERROR(out.append("{"));
    ++level;
    for (size_t i = 0; i < order.size(); ++i) {
      const auto &[name, value] = dict.entries[order[i]];
      MOERT_RETURN_IF_ERROR(beginItem(i == 0));
      std::optional<std::string> key = scalarJson(name, style.isAscii);
      if (!key)
        return invalidInput("keys must be str, int, float, bool or None, not ", name.typeName());
      MOERT_RETURN_IF_ERROR(out.append(name.isText() ? *key : '"' + *key + '"'));
      MOERT_RETURN_IF_ERROR(out.append(style.keySeparator));
      MOERT_RETURN_IF_ERROR(append(value));
    }
    --level;
    MOERT_RETURN_IF_ERROR(newLine());
    return out.append("}");
  }

  Result<std::vector<size_t>> entryOrder(const Dict &dict) {
    std::vector<Value> names;
    for (const auto &entry : dict.entries)
      names.push_back(entry.first);
    if (style.isSorted)
      return sortedOrder(names, false, out.allowance);
    std::vector<size_t> order(names.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    return order;
  }

  const JsonStyle &style;
  TextBuilder &out;
  uint64_t level = 0;
};

} // namespace

Status appendJson(const Value &value, const JsonStyle &style, TextBuilder &out) {
  return JsonText(style, out).append(value);
}

} // namespace moert::chat
