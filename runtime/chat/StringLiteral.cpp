#include "runtime/chat/StringLiteral.h"

#include "runtime/base/Utf8.h"

#include <charconv>
#include <cstdint>
#include <cstdio>

namespace moert::chat {

namespace {

constexpr std::string_view kSimple = "\n\\'\"abfnrtv";
constexpr std::string_view kReplacements[] = {"",   "\\", "'",  "\"", "\a", "\b",
                                              "\f", "\n", "\r", "\t", "\v"};

/// \xHH, \uHHHH or \UHHHHHHHH, without the backslash.
Result<size_t> appendHexadecimal(std::string_view escape, std::string &out) {
  const size_t digits = escape[0] == 'x' ? 2 : escape[0] == 'u' ? 4 : 8;
  uint32_t value = 0;
  const std::string_view number = escape.substr(1, digits);
  const auto end = std::from_chars(number.data(), number.data() + number.size(), value, 16);
  if (number.size() < digits || end.ptr != number.data() + digits)
    return invalidInput("a truncated \\", escape.substr(0, 1), " escape, expected ", digits,
                        " hexadecimal digits");
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
    return invalidInput("the escape \\", escape.substr(0, 1 + digits), " is no character");
  appendCodePoint(value, out);
  return 1 + digits;
}

size_t appendOctal(std::string_view escape, std::string &out) {
  uint32_t value = 0;
  size_t length = 0;
  while (length < 3 && length < escape.size() && escape[length] >= '0' && escape[length] <= '7')
    value = 8 * value + static_cast<uint32_t>(escape[length++] - '0');
  appendCodePoint(value, out);
  return length;
}

/// Python writes other characters as escapes first, and a backslash before one escapes that.
size_t appendEscapedCharacter(std::string_view escape, std::string &out) {
  const CodePoint character = firstCodePoint(escape);
  char text[16];
  const char *format = character.value <= 0xFF     ? "\\x%02x"
                       : character.value <= 0xFFFF ? "\\u%04x"
                                                   : "\\U%08x";
  std::snprintf(text, sizeof text, format, character.value);
  out += text;
  return character.length;
}

/// Appends what the escape stands for and returns its length. `escape` starts after the backslash.
Result<size_t> appendEscape(std::string_view escape, std::string &out) {
  const char c = escape[0];
  const size_t simple = kSimple.find(c);
  if (simple != std::string_view::npos) {
    out += kReplacements[simple];
    return size_t(1);
  }
  if (c == 'x' || c == 'u' || c == 'U')
    return appendHexadecimal(escape, out);
  if (c >= '0' && c <= '7')
    return appendOctal(escape, out);
  if (c == 'N')
    return invalidInput("the escape \\N is not supported");
  if (static_cast<unsigned char>(c) >= 0x80)
    return appendEscapedCharacter(escape, out);
  out.append(1, '\\').append(1, c); // Python keeps an unknown escape.
  return size_t(1);
}

} // namespace

Result<std::string> unescapeString(std::string_view literal) {
  std::string text;
  text.reserve(literal.size());
  for (size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\') {
      text += literal[at++];
      continue;
    }
    if (at + 1 == literal.size())
      return invalidInput("a backslash at the end of a string");
    MOERT_ASSIGN_OR_RETURN(const size_t length, appendEscape(literal.substr(at + 1), text));
    at += 1 + length;
  }
  return text;
}

} // namespace moert::chat
