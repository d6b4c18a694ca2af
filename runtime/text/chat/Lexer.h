// Divides a template into tokens: tags, and the text between them that is printed. White space
// beside tags is removed as jinja2 does with trim_blocks and lstrip_blocks.
#pragma once

#include "runtime/base/Status.h"

#include <algorithm>
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

/// The tokens of a template for its parser. Read once. Never moves past the last token, kEnd.
class TokenStream {
public:
  explicit TokenStream(std::vector<Token> templateTokens) : tokens(std::move(templateTokens)) {}

  const Token &current() const { return tokens[place]; }
  const Token &next() const { return tokens[std::min(place + 1, tokens.size() - 1)]; }
  void advance() { place = std::min(place + 1, tokens.size() - 1); }
  uint32_t line() const { return current().line; }

  /// Moves past a name or an operator if it is the current token.
  bool skip(std::string_view symbol);
  Status expect(std::string_view symbol);
  Status expect(TokenKind kind);
  /// Any name.
  Result<std::string> takeName();

  template <typename... Parts> Status error(const Parts &...parts) const {
    return errorAtLine(line(), parts...);
  }
  template <typename... Parts> Status notSupported(const Parts &...what) const {
    return errorAtLine(line(), what..., " is not supported");
  }
  /// "found this, expected that".
  Status unexpected(std::string_view expected) const;

private:
  std::vector<Token> tokens;
  size_t place = 0;
};

/// The source is valid UTF-8.
Result<std::vector<Token>> tokenize(std::string_view source);

} // namespace moert::chat
