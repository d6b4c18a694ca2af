#include "runtime/base/JsonWriter.h"

#include "runtime/base/ShortestDecimal.h"
#include "runtime/base/Utf8.h"

#include <cassert>
#include <charconv>
#include <cmath>

namespace moert {

template <typename Integer> static void appendInteger(Integer value, std::string &out) {
  char digits[32];
  std::to_chars_result end = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, end.ptr);
}

void JsonWriter::beforeValue() {
  if (afterKey) {
    afterKey = false;
    return;
  }
  if (hasValues.empty())
    return;
  if (hasValues.back())
    out += ',';
  hasValues.back() = true;
}

void JsonWriter::open(char bracket) {
  beforeValue();
  out += bracket;
  hasValues.push_back(false);
}

void JsonWriter::close(char bracket) {
  assert(!hasValues.empty() && !afterKey);
  hasValues.pop_back();
  out += bracket;
}

JsonWriter &JsonWriter::key(std::string_view name) {
  assert(!afterKey);
  beforeValue();
  appendQuoted(name);
  out += ':';
  afterKey = true;
  return *this;
}

void JsonWriter::string(std::string_view text) {
  beforeValue();
  std::string utf8;
  appendLossyUtf8(text, true, utf8);
  appendQuoted(utf8);
}

void JsonWriter::number(uint64_t value) {
  beforeValue();
  appendInteger(value, out);
}

void JsonWriter::number(int64_t value) {
  beforeValue();
  appendInteger(value, out);
}

void JsonWriter::number(double value) {
  beforeValue();
  if (std::isfinite(value))
    out += decimalText(value, DecimalForm::kGeneral, shortestDigits(value));
  else
    out += "null";
}

void JsonWriter::boolean(bool value) {
  beforeValue();
  out += value ? "true" : "false";
}

void JsonWriter::appendQuoted(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

} // namespace moert
