// The tokens of a template for its parser.
#pragma once

#include "runtime/chat/Lexer.h"

#include <algorithm>

namespace moert::chat {

/// Read once. Never moves past the last token, kEnd.
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

} // namespace moert::chat
