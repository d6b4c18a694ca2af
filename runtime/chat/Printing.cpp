#include "runtime/chat/Printing.h"

#include "runtime/base/ShortestDecimal.h"
#include "runtime/base/Utf8.h"
#include "runtime/chat/Operators.h"
#include "runtime/chat/PythonText.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

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

} // namespace moert::chat
