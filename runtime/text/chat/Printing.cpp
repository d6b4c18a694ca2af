#include "runtime/text/chat/Printing.h"

#include "runtime/base/ShortestDecimal.h"
#include "runtime/base/Utf8.h"
#include "runtime/text/chat/Operators.h"
#include "runtime/text/chat/PythonText.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

namespace moert::chat {

namespace {

/// \xNN, \uNNNN or \UNNNNNNNN.
std::string escapedCodePoint(uint32_t codePoint) {
  char text[16];
  const char *format = codePoint <= 0xFF ? "\\x%02x" : codePoint <= 0xFFFF ? "\\u%04x" : "\\U%08x";
  std::snprintf(text, sizeof text, format, codePoint);
  return text;
}

Status appendQuoted(const std::string &text, TextBuilder &out) {
  const bool hasSingle = text.find('\'') != std::string::npos;
  const char quote = hasSingle && text.find('"') == std::string::npos ? '"' : '\'';
  std::string quoted(1, quote);
  for (size_t at = 0; at < text.size();) {
    const CodePoint character = firstCodePoint(std::string_view(text).substr(at));
    const uint32_t value = character.value;
    if (value == static_cast<unsigned char>(quote) || value == '\\')
      quoted.append(1, '\\').append(1, static_cast<char>(value));
    else if (value == '\n' || value == '\r' || value == '\t')
      quoted += value == '\n' ? "\\n" : value == '\r' ? "\\r" : "\\t";
    else if (isPrintable(value))
      quoted.append(text, at, character.length);
    else
      quoted += escapedCodePoint(value);
    at += character.length;
  }
  return out.append(quoted += quote);
}

/// The items between brackets, separated by commas.
Status appendItems(const std::vector<Value> &items, std::string_view open, std::string_view close,
                   TextBuilder &out) {
  MOERT_RETURN_IF_ERROR(out.append(open));
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0)
      MOERT_RETURN_IF_ERROR(out.append(", "));
    MOERT_RETURN_IF_ERROR(appendRepr(items[i], out));
  }
  return out.append(close);
}

Status appendSequence(const Value &value, TextBuilder &out) {
  const Sequence &sequence = *value.sequence();
  switch (sequence.kind) {
  case SequenceKind::kList:
    return appendItems(sequence.items, "[", "]", out);
  case SequenceKind::kTuple:
    return appendItems(sequence.items, "(", sequence.items.size() == 1 ? ",)" : ")", out);
  default:
    break;
  }
  return notSupported("printing a value of type ", value.typeName(), " without the filter 'list'");
}

Status appendDict(const Dict &dict, TextBuilder &out) {
  MOERT_RETURN_IF_ERROR(out.append("{"));
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0)
      MOERT_RETURN_IF_ERROR(out.append(", "));
    MOERT_RETURN_IF_ERROR(appendRepr(dict.entries[i].first, out));
    MOERT_RETURN_IF_ERROR(out.append(": "));
    MOERT_RETURN_IF_ERROR(appendRepr(dict.entries[i].second, out));
  }
  return out.append("}");
}

} // namespace

/// Removes the zeros that end a fraction, and a decimal point before nothing.
static std::string withoutZeros(std::string text) {
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.')
      text.pop_back();
  }
  return text;
}

// Python switches to an exponent below 1e-4 and from 1e16 on.
std::string floatText(double number) {
  if (std::isnan(number))
    return "nan";
  if (std::isinf(number))
    return number < 0 ? "-inf" : "inf";
  const int digits = shortestDigits(number);
  const std::string shortest = decimalText(number, DecimalForm::kScientific, digits - 1);
  const size_t mark = shortest.find('e');
  const int exponent = std::atoi(shortest.c_str() + mark + 1);
  if (exponent < -4 || exponent >= 16)
    return withoutZeros(shortest.substr(0, mark)) + shortest.substr(mark);
  const int places = std::max(1, digits - 1 - exponent);
  const std::string text = withoutZeros(decimalText(number, DecimalForm::kFixed, places));
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

Status appendRepr(const Value &value, TextBuilder &out) {
  switch (value.kind()) {
  case Kind::kUndefined:
    return out.append("Undefined");
  case Kind::kNone:
    return out.append("None");
  case Kind::kBoolean:
    return out.append(value.boolean() ? "True" : "False");
  case Kind::kInteger:
    return out.append(std::to_string(value.integer()));
  case Kind::kFloat:
    return out.append(floatText(value.number()));
  case Kind::kText:
    return appendQuoted(value.text(), out);
  case Kind::kSequence:
    return appendSequence(value, out);
  case Kind::kDict:
    return appendDict(*value.dict(), out);
  case Kind::kObject:
    break;
  }
  return notSupported("printing a value of type ", value.typeName());
}

Status appendText(const Value &value, TextBuilder &out) {
  if (value.isText())
    return out.append(value.text());
  return value.isUndefined() ? Status() : appendRepr(value, out);
}

// JSON --------------------------------------------------------------------------------------------

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
    if (value.isDict()) {
      const auto &entries = value.dict()->entries;
      return appendItems("{", "}", entries.size(), [&](size_t i) {
        return appendEntry(entries[i].first, entries[i].second);
      });
    }
    if (value.isSequence() && value.sequence()->kind <= SequenceKind::kTuple) {
      const std::vector<Value> &items = value.sequence()->items;
      return appendItems("[", "]", items.size(), [&](size_t i) { return append(items[i]); });
    }
    return invalidInput("Object of type ", value.typeName(), " is not JSON serializable");
  }

private:
  Status newLine() {
    if (!style.isIndented)
      return {};
    MOERT_RETURN_IF_ERROR(out.append("\n"));
    return out.repeat(" ", style.indent * level);
  }

  /// `count` items between brackets, each of which `appendItem` appends.
  template <typename AppendItem>
  Status appendItems(std::string_view open, std::string_view close, size_t count,
                     AppendItem appendItem) {
    MOERT_RETURN_IF_ERROR(out.append(open));
    ++level;
    for (size_t i = 0; i < count; ++i) {
      if (i > 0)
        MOERT_RETURN_IF_ERROR(out.append(style.itemSeparator));
      MOERT_RETURN_IF_ERROR(newLine());
      MOERT_RETURN_IF_ERROR(appendItem(i));
    }
    --level;
    if (count > 0)
      MOERT_RETURN_IF_ERROR(newLine());
    return out.append(close);
  }

  Status appendEntry(const Value &name, const Value &value) {
    const std::optional<std::string> key = scalarJson(name);
    if (!key)
      return invalidInput("keys must be str, int, float, bool or None, not ", name.typeName());
    MOERT_RETURN_IF_ERROR(out.append(name.isText() ? *key : '"' + *key + '"'));
    MOERT_RETURN_IF_ERROR(out.append(style.keySeparator));
    return append(value);
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
