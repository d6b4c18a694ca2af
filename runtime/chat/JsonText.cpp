// JSON as Python's json.dumps() writes it; declared in Printing.h.
#include "runtime/chat/Printing.h"

#include <cmath>
#include <cstdio>
#include <optional>

namespace moert::chat {

namespace {

std::string quotedJson(std::string_view text) {
  static constexpr std::string_view kEscaped = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
  std::string quoted = "\"";
  for (const char c : text) {
    const size_t place = kEscaped.find(c);
    char escape[8];
    if (place != std::string_view::npos)
      quoted.append(1, '\\').append(1, kLetters[place]);
    else if (static_cast<unsigned char>(c) < 0x20)
      quoted.append(escape, static_cast<size_t>(
                                std::snprintf(escape, sizeof escape, "\\u%04x", unsigned(c))));
    else
      quoted += c;
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
std::optional<std::string> scalarJson(const Value &value) {
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
    return quotedJson(value.text());
  default:
    return std::nullopt;
  }
}

class JsonText {
public:
  JsonText(const JsonStyle &jsonStyle, TextBuilder &builder) : style(jsonStyle), out(builder) {}

  Status append(const Value &value) {
    if (std::optional<std::string> scalar = scalarJson(value))
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
    return out.repeat(" ", style.indent * level);
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
    MOERT_RETURN_IF_ERROR(out.append("{"));
    ++level;
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      const auto &[name, value] = dict.entries[i];
      MOERT_RETURN_IF_ERROR(beginItem(i == 0));
      std::optional<std::string> key = scalarJson(name);
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

  const JsonStyle &style;
  TextBuilder &out;
  uint64_t level = 0;
};

} // namespace

Status appendJson(const Value &value, const JsonStyle &style, TextBuilder &out) {
  return JsonText(style, out).append(value);
}

} // namespace moert::chat
