// The expressions without operators: names, literals, brackets and targets of assignments; declared
// in ExpressionParser.h.
#include "runtime/base/Excerpt.h"
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/ExpressionParser.h"

#include <algorithm>

namespace moert::chat {

Result<ExpressionPtr> ExpressionParser::parsePrimary() {
  const Token &token = tokens.current();
  switch (token.kind) {
  case TokenKind::kName:
    return parseName();
  case TokenKind::kString:
    return parseString();
  case TokenKind::kNumber:
    return parseNumber();
  default:
    break;
  }
  if (token.isOperator("("))
    return parseParentheses();
  if (token.isOperator("["))
    return parseList();
  if (token.isOperator("{"))
    return parseDict();
  return tokens.unexpected("an expression");
}

Result<ExpressionPtr> ExpressionParser::parseName() {
  static constexpr std::string_view kUnsupported[] = {"caller", "kwargs", "varargs", "self",
                                                      "super"};
  const uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(std::string name, tokens.takeName());
  if (name == "true" || name == "True" || name == "false" || name == "False")
    return make(line, Literal{Value(name == "true" || name == "True")});
  if (name == "none" || name == "None")
    return make(line, Literal{Value()});
  if (std::find(std::begin(kUnsupported), std::end(kUnsupported), name) != std::end(kUnsupported))
    return make(line, UnsupportedName{std::move(name)});
  usesLoop |= name == "loop";
  return make(line, Name{std::move(name)});
}

Result<ExpressionPtr> ExpressionParser::parseString() {
  const uint32_t line = tokens.line();
  std::string text;
  for (; tokens.current().kind == TokenKind::kString; tokens.advance())
    text += tokens.current().text; // Adjacent strings are one.
  return make(line, Literal{Value::ofText(std::move(text))});
}

Result<ExpressionPtr> ExpressionParser::parseNumber() {
  const uint32_t line = tokens.line();
  Result<std::optional<Value>> number = chat::parseNumber(tokens.current().text);
  if (!number.isOk())
    return tokens.error(number.status().message());
  tokens.advance();
  return make(line, Literal{number->value()});
}

Result<ExpressionPtr> ExpressionParser::parseParentheses() {
  const uint32_t line = tokens.line();
  tokens.advance();
  if (tokens.skip(")"))
    return make(line, ListLiteral{SequenceKind::kTuple});
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr inner, parseTuple());
  MOERT_RETURN_IF_ERROR(tokens.expect(")"));
  return inner;
}

Result<ExpressionPtr> ExpressionParser::parseTuple(bool withCondition) {
  auto isEnd = [&] {
    const Token &token = tokens.current();
    return token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd ||
           token.isOperator(")");
  };
  const uint32_t line = tokens.line();
  if (isEnd())
    return tokens.unexpected("an expression");
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr first, parseExpression(withCondition));
  if (!tokens.current().isOperator(","))
    return first;
  Expressions items;
  items.push_back(std::move(first));
  while (tokens.skip(",") && !isEnd()) {
    MOERT_ASSIGN_OR_RETURN(items.emplace_back(), parseExpression(withCondition));
  }
  return make(line, ListLiteral{SequenceKind::kTuple}, std::move(items));
}

Result<ExpressionPtr> ExpressionParser::parseList() {
  const uint32_t line = tokens.line();
  tokens.advance();
  Expressions items;
  while (!tokens.skip("]")) {
    MOERT_ASSIGN_OR_RETURN(items.emplace_back(), parseExpression());
    if (!tokens.current().isOperator("]"))
      MOERT_RETURN_IF_ERROR(tokens.expect(","));
  }
  return make(line, ListLiteral{SequenceKind::kList}, std::move(items));
}

Result<ExpressionPtr> ExpressionParser::parseDict() {
  const uint32_t line = tokens.line();
  tokens.advance();
  Expressions entries;
  while (!tokens.skip("}")) {
    MOERT_ASSIGN_OR_RETURN(entries.emplace_back(), parseExpression());
    MOERT_RETURN_IF_ERROR(tokens.expect(":"));
    MOERT_ASSIGN_OR_RETURN(entries.emplace_back(), parseExpression());
    if (!tokens.current().isOperator("}"))
      MOERT_RETURN_IF_ERROR(tokens.expect(","));
  }
  return make(line, DictLiteral{}, std::move(entries));
}

Result<std::string> ExpressionParser::parseTargetName() {
  static constexpr std::string_view kConstants[] = {"true", "false", "none",
                                                    "True", "False", "None"};
  if (tokens.current().isOperator("("))
    return tokens.notSupported("a target in parentheses");
  const uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(std::string name, tokens.takeName());
  if (std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants))
    return errorAtLine(line, "cannot assign to '", name, "'");
  return name;
}

Result<Target> ExpressionParser::parseTarget(bool allowsMember) {
  Target target;
  MOERT_ASSIGN_OR_RETURN(target.names.emplace_back(), parseTargetName());
  if (allowsMember && tokens.skip(".")) {
    MOERT_ASSIGN_OR_RETURN(target.member, tokens.takeName());
    return target;
  }
  while (tokens.skip(",")) {
    target.isTuple = true;
    MOERT_ASSIGN_OR_RETURN(target.names.emplace_back(), parseTargetName());
  }
  return target;
}

} // namespace moert::chat
