#include "runtime/chat/TokenStream.h"

#include "runtime/base/Excerpt.h"

namespace moert::chat {

static std::string describe(TokenKind kind, std::string_view text) {
  switch (kind) {
  case TokenKind::kText:
    return "text";
  case TokenKind::kVariableBegin:
    return "'{{'";
  case TokenKind::kVariableEnd:
    return "'}}'";
  case TokenKind::kBlockBegin:
    return "'{%'";
  case TokenKind::kBlockEnd:
    return "'%}'";
  case TokenKind::kString:
    return "a string";
  case TokenKind::kEnd:
    return "the end of the template";
  default:
    return text.empty() ? "a name" : "'" + excerpt(text) + "'";
  }
}

bool TokenStream::skip(std::string_view symbol) {
  const bool isFound = current().is(symbol);
  if (isFound)
    advance();
  return isFound;
}

Status TokenStream::unexpected(std::string_view expected) const {
  return error("found ", describe(current().kind, current().text), ", expected ", expected);
}

Status TokenStream::expect(std::string_view symbol) {
  return skip(symbol) ? Status() : unexpected(strCat("'", symbol, "'"));
}

Status TokenStream::expect(TokenKind kind) {
  if (current().kind != kind)
    return unexpected(describe(kind, ""));
  advance();
  return {};
}

Result<std::string> TokenStream::takeName() {
  MOERT_RETURN_IF_ERROR(current().kind == TokenKind::kName ? Status() : unexpected("a name"));
  std::string name = current().text;
  advance();
  return name;
}

} // namespace moert::chat
