// Divides a template into tokens: tags, and the text between them that is printed. White space
// beside tags is removed as jinja2 does with trim_blocks and lstrip_blocks.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moert::chat {

enum class TokenKind : uint8_t {
  kText, // Printed.
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString, // Its characters, with the escapes replaced.
  kNumber, // In decimals.
  kOperator,
  kEnd, // The template's end; always the last token.
};

struct Token {
  TokenKind kind;
  uint32_t line;
  std::string text;

  bool isName(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool isOperator(std::string_view symbol) const {
    return kind == TokenKind::kOperator && text == symbol;
  }
  /// Either of the two.
  bool is(std::string_view symbol) const {
    return (kind == TokenKind::kName || kind == TokenKind::kOperator) && text == symbol;
  }
};

/// "line N: message".
template <typename... Parts> Status errorAtLine(uint32_t line, const Parts &...parts) {
  return invalidInput("line ", line, ": ", parts...);
}

/// The source is valid UTF-8.
Result<std::vector<Token>> tokenize(std::string_view source);

} // namespace moert::chat
