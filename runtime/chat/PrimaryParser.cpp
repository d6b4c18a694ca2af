// The token stream, and the expressions without operators: names, literals, brackets and targets of
// assignments; declared in ExpressionParser.h.
#include "runtime/base/Excerpt.h"
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/ExpressionParser.h"

#include <algorithm>

namespace moert::chat {

namespace {

std::string describe(TokenKind kind, std::string_view text) {
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
  case TokenKind::kName:
    return text.empty() ? "a name" : "'" + excerpt(text) + "'";
  default:
    return "'" + excerpt(text) + "'";
  }
}

} // namespace

bool TokenStream::skipName(std::string_view name) {
  const bool isFound = current().isName(name);
  if (isFound)
    advance();
  return isFound;
}

bool TokenStream::skipOperator(std::string_view symbol) {
  const bool isFound = current().isOperator(symbol);
  if (isFound)
    advance();
  return isFound;
}

Status TokenStream::unexpected(std::string_view expected) const {
  return error("found ", describe(current().kind, current().text), ", expected ", expected);
}

Status TokenStream::expectName(std::string_view name) {
  return skipName(name) ? Status() : unexpected(strCat("'", name, "'"));
}

Status TokenStream::expectOperator(std::string_view symbol) {
  return skipOperator(symbol) ? Status() : unexpected(strCat("'", symbol, "'"));
}

Status TokenStream::expect(TokenKind kind) {
  if (current().kind != kind)
    return unexpected(describe(kind, ""));
  advance();
  return {};
}

Result<std::string> TokenStream::takeName() {
  if (current().kind != TokenKind::kName)
    return unexpected("a name");
  std::string name = current().text;
  advance();
  return name;
}

Result<ExpressionPtr> ExpressionParser::parsePrimary() {
  const Token &token = tokens.current();
  switch (token.kind) {
  case TokenKind::kName:
    return parseName();
  case TokenKind::kString:
    return parseString();
  case TokenKind::kInteger:
  case TokenKind::kFloat:
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
  const uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(std::string name, tokens.takeName());
  if (name == "true" || name == "True" || name == "false" || name == "False")
    return make(line, 0, Literal{Value(name == "true" || name == "True")});
  if (name == "none" || name == "None")
    return make(line, 0, Literal{Value()});
  if (name == "self" || name == "super" || name == "lipsum")
    return errorAtLine(line, "'", name, "' is not supported");
  usedNames.loop |= name == "loop";
  usedNames.caller |= name == "caller";
  usedNames.extraPositional |= name == "varargs";
  usedNames.extraNamed |= name == "kwargs";
  return make(line, 0, Name{std::move(name)});
}

Result<ExpressionPtr> ExpressionParser::parseString() {
  const uint32_t line = tokens.line();
  std::string text;
  for (; tokens.current().kind == TokenKind::kString; tokens.advance())
    text += tokens.current().text; // Adjacent strings are one.
  return make(line, 0, Literal{Value::ofText(std::move(text))});
}

Result<ExpressionPtr> ExpressionParser::parseNumber() {
  const Token token = tokens.current();
  tokens.advance();
  if (token.kind == TokenKind::kFloat) {
    const std::optional<double> number = parseFloat(token.text);
    if (!number)
      return errorAtLine(token.line, "'", excerpt(token.text), "' is not a number");
    return make(token.line, 0, Literal{Value(*number)});
  }
  const std::optional<Result<int64_t>> number = parseInteger(token.text, 0);
  if (!number || !number->isOk())
    return errorAtLine(token.line, "the integer ", excerpt(token.text),
                       " needs more than 64 bits, which is not supported");
  return make(token.line, 0, Literal{Value(number->value())});
}

Result<ExpressionPtr> ExpressionParser::parseParentheses() {
  const uint32_t line = tokens.line();
  tokens.advance();
  if (tokens.skipOperator(")"))
    return make(line, 0, ListLiteral{SequenceKind::kTuple, {}});
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr inner, parseTuple());
  MOERT_RETURN_IF_ERROR(tokens.expectOperator(")"));
  return inner;
}

Result<ExpressionPtr> ExpressionParser::parseTuple(bool withCondition, std::string_view end) {
  auto isEnd = [&] {
    const Token &token = tokens.current();
    return token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd ||
           token.isOperator(")") || (!end.empty() && token.isName(end));
  };
  const uint32_t line = tokens.line();
  if (isEnd())
    return tokens.unexpected("an expression");
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr first, parseExpression(withCondition));
  if (!tokens.current().isOperator(","))
    return first;
  ListLiteral tuple{SequenceKind::kTuple, {}};
  uint32_t depth = first->depth;
  tuple.items.push_back(std::move(first));
  while (tokens.skipOperator(",") && !isEnd()) {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr item, parseExpression(withCondition));
    depth = std::max(depth, item->depth);
    tuple.items.push_back(std::move(item));
  }
  return make(line, depth, std::move(tuple));
}

Result<ExpressionPtr> ExpressionParser::parseList() {
  const uint32_t line = tokens.line();
  tokens.advance();
  ListLiteral list{SequenceKind::kList, {}};
  uint32_t depth = 0;
  while (!tokens.skipOperator("]")) {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr item, parseExpression());
    depth = std::max(depth, item->depth);
    list.items.push_back(std::move(item));
    if (!tokens.current().isOperator("]"))
      MOERT_RETURN_IF_ERROR(tokens.expectOperator(","));
  }
  return make(line, depth, std::move(list));
}

Result<ExpressionPtr> ExpressionParser::parseDict() {
  const uint32_t line = tokens.line();
  tokens.advance();
  DictLiteral dict;
  uint32_t depth = 0;
  while (!tokens.skipOperator("}")) {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr name, parseExpression());
    MOERT_RETURN_IF_ERROR(tokens.expectOperator(":"));
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, parseExpression());
    depth = std::max({depth, name->depth, value->depth});
    dict.entries.emplace_back(std::move(name), std::move(value));
    if (!tokens.current().isOperator("}"))
      MOERT_RETURN_IF_ERROR(tokens.expectOperator(","));
  }
  return make(line, depth, std::move(dict));
}

Result<Target> ExpressionParser::parseTargetPart(bool allowsMember) {
  static constexpr std::string_view kConstants[] = {"true", "false", "none",
                                                    "True", "False", "None"};
  if (tokens.current().isOperator("(")) {
    tokens.advance();
    MOERT_ASSIGN_OR_RETURN(Target tuple, parseTarget(allowsMember));
    MOERT_RETURN_IF_ERROR(tokens.expectOperator(")"));
    return tuple;
  }
  const uint32_t line = tokens.line();
  Target target;
  MOERT_ASSIGN_OR_RETURN(target.name, tokens.takeName());
  if (std::find(std::begin(kConstants), std::end(kConstants), target.name) != std::end(kConstants))
    return errorAtLine(line, "cannot assign to '", target.name, "'");
  if (allowsMember && tokens.skipOperator(".")) {
    MOERT_ASSIGN_OR_RETURN(target.member, tokens.takeName());
  }
  return target;
}

Result<Target> ExpressionParser::parseTarget(bool allowsMember, std::string_view end) {
  if (++nesting > kMaxNesting)
    return tokens.error("targets are nested deeper than ", kMaxNesting, " levels");
  MOERT_ASSIGN_OR_RETURN(Target first, parseTargetPart(allowsMember));
  --nesting;
  if (!tokens.current().isOperator(","))
    return first;
  Target tuple;
  tuple.parts.push_back(std::move(first));
  while (tokens.skipOperator(",")) {
    const Token &token = tokens.current();
    if (token.kind == TokenKind::kBlockEnd || token.isOperator(")") ||
        (!end.empty() && token.isName(end)))
      break;
    MOERT_ASSIGN_OR_RETURN(Target part, parseTargetPart(allowsMember));
    tuple.parts.push_back(std::move(part));
  }
  return tuple;
}

} // namespace moert::chat
