#include "runtime/text/chat/ExpressionParser.h"

#include "runtime/text/chat/Builtins.h"
#include "runtime/text/chat/Operators.h"

#include <algorithm>

namespace moert::chat {

namespace {

struct BinarySymbol {
  uint32_t level; // How tightly it binds. Operators of one level join from the left.
  std::string_view symbol;
  Operator op;
};
constexpr uint32_t kNotLevel = 2, kComparisonLevel = 3, kUnaryLevel = 7;
constexpr BinarySymbol kBinarySymbols[] = {
    {0, "or", Operator::kOr},           {1, "and", Operator::kAnd},
    {3, "==", Operator::kEqual},        {3, "!=", Operator::kNotEqual},
    {3, "<=", Operator::kLessEqual},    {3, "<", Operator::kLess},
    {3, ">=", Operator::kGreaterEqual}, {3, ">", Operator::kGreater},
    {3, "in", Operator::kIn},           {4, "+", Operator::kAdd},
    {4, "-", Operator::kSubtract},      {5, "~", Operator::kConcatenate},
    {6, "*", Operator::kMultiply},      {6, "/", Operator::kDivide},
    {6, "//", Operator::kFloorDivide},  {6, "%", Operator::kModulo},
};

} // namespace

template <typename Parse> Result<ExpressionPtr> ExpressionParser::nested(Parse parse) {
  if (++nesting > kMaxNesting)
    return tokens.error("expressions are nested deeper than ", kMaxNesting, " levels");
  Result<ExpressionPtr> expression = parse();
  --nesting;
  return expression;
}

Result<ExpressionPtr> ExpressionParser::make(uint32_t line, Node node, Expressions children) const {
  uint32_t depth = 0;
  for (const ExpressionPtr &child : children)
    depth = std::max(depth, child ? child->depth : 0);
  if (depth >= kMaxExpressionDepth)
    return errorAtLine(line, "an expression of more than ", kMaxExpressionDepth,
                       " levels; expected fewer");
  return std::make_unique<Expression>(
      Expression{line, depth + 1, std::move(node), std::move(children)});
}

Result<ExpressionPtr> ExpressionParser::parseExpression(bool withCondition) {
  return nested([&] { return withCondition ? parseConditional() : parseBinary(0); });
}

Result<ExpressionPtr> ExpressionParser::parseConditional() {
  uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, parseBinary(0));
  while (tokens.skip("if")) {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr test, parseBinary(0));
    ExpressionPtr otherwise;
    if (tokens.skip("else")) {
      MOERT_ASSIGN_OR_RETURN(otherwise, parseExpression());
    }
    MOERT_ASSIGN_OR_RETURN(
        value, make(line, Conditional{}, std::move(test), std::move(value), std::move(otherwise)));
    line = tokens.line();
  }
  return value;
}

std::optional<Operator> ExpressionParser::takeOperator(uint32_t level) {
  for (const BinarySymbol &symbol : kBinarySymbols)
    if (symbol.level == level && tokens.skip(symbol.symbol))
      return symbol.op;
  if (level != kComparisonLevel || !tokens.current().isName("not") || !tokens.next().isName("in"))
    return std::nullopt;
  tokens.advance();
  tokens.advance();
  return Operator::kNotIn;
}

Result<ExpressionPtr> ExpressionParser::parseBinary(uint32_t level) {
  if (level == kUnaryLevel)
    return parseUnary(true);
  if (level == kNotLevel && tokens.current().isName("not"))
    return parseNot();
  const uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr left, parseBinary(level + 1));
  bool isCompared = false;
  while (const std::optional<Operator> op = takeOperator(level)) {
    if (isCompared)
      return tokens.notSupported("a chain of comparisons");
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr right, parseBinary(level + 1));
    MOERT_ASSIGN_OR_RETURN(left, make(line, Operation{*op}, std::move(left), std::move(right)));
    isCompared = level == kComparisonLevel;
  }
  if (tokens.current().isOperator("**"))
    return tokens.notSupported("the operator '**'");
  return left;
}

Result<ExpressionPtr> ExpressionParser::parseNot() {
  const uint32_t line = tokens.line();
  tokens.advance();
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr operand, nested([&] { return parseBinary(kNotLevel); }));
  return make(line, Operation{Operator::kNot}, std::move(operand));
}

Result<ExpressionPtr> ExpressionParser::parseUnary(bool withFilter) {
  const uint32_t line = tokens.line();
  const bool isMinus = tokens.skip("-");
  ExpressionPtr operand;
  if (isMinus || tokens.skip("+")) {
    MOERT_ASSIGN_OR_RETURN(operand, nested([&] { return parseUnary(false); }));
    MOERT_ASSIGN_OR_RETURN(
        operand,
        make(line, Operation{isMinus ? Operator::kMinus : Operator::kPlus}, std::move(operand)));
  } else {
    MOERT_ASSIGN_OR_RETURN(operand, parsePrimary());
  }
  return parsePostfix(std::move(operand), withFilter);
}

Result<ExpressionPtr> ExpressionParser::parsePostfix(ExpressionPtr operand, bool withFilter) {
  bool isFiltered = false; // After a filter or test, members and subscripts may not follow.
  for (;;) {
    const Token &token = tokens.current();
    Result<ExpressionPtr> next = ExpressionPtr();
    if (token.isOperator("("))
      next = parseCall(std::move(operand));
    else if (!isFiltered && token.isOperator("."))
      next = parseMember(std::move(operand));
    else if (!isFiltered && token.isOperator("["))
      next = parseSubscript(std::move(operand));
    else if (withFilter && (token.isOperator("|") || token.isName("is"))) {
      isFiltered = true;
      next = token.isName("is") ? parseTest(std::move(operand)) : parseFilter(std::move(operand));
    } else
      return operand;
    MOERT_ASSIGN_OR_RETURN(operand, std::move(next));
  }
}

Result<ExpressionPtr> ExpressionParser::parseMember(ExpressionPtr object) {
  const uint32_t line = tokens.line();
  tokens.advance();
  if (tokens.current().kind == TokenKind::kNumber)
    return tokens.notSupported("a number after '.'");
  MOERT_ASSIGN_OR_RETURN(std::string name, tokens.takeName());
  return make(line, Attribute{std::move(name)}, std::move(object));
}

Result<ExpressionPtr> ExpressionParser::parseSubscript(ExpressionPtr object) {
  const uint32_t line = tokens.line();
  tokens.advance();
  ExpressionPtr bounds[3];
  size_t colons = 0;
  for (; !tokens.current().isOperator("]"); ++colons) {
    if (!tokens.current().isOperator(":")) {
      MOERT_ASSIGN_OR_RETURN(bounds[colons], parseExpression());
    }
    if (colons == 2 || !tokens.skip(":"))
      break;
  }
  if (tokens.current().isOperator(","))
    return tokens.notSupported("a subscript of several values");
  MOERT_RETURN_IF_ERROR(tokens.expect("]"));
  if (colons > 0)
    return make(line, Slice{}, std::move(object), std::move(bounds[0]), std::move(bounds[1]),
                std::move(bounds[2]));
  if (!bounds[0])
    return errorAtLine(line, "an empty subscript, expected a value between the brackets");
  return make(line, Subscript{}, std::move(object), std::move(bounds[0]));
}

Result<ExpressionPtr> ExpressionParser::parseCall(ExpressionPtr callee) {
  const uint32_t line = tokens.line();
  Expressions children;
  children.push_back(std::move(callee));
  MOERT_ASSIGN_OR_RETURN(std::vector<std::string> names, parseArguments(children));
  return make(line, CallExpression{std::move(names)}, std::move(children));
}

Result<std::vector<std::string>> ExpressionParser::parseArguments(Expressions &children) {
  std::vector<std::string> names;
  MOERT_RETURN_IF_ERROR(tokens.expect("("));
  while (!tokens.skip(")")) {
    if (tokens.current().isOperator("*") || tokens.current().isOperator("**"))
      return tokens.notSupported("unpacking arguments with '", tokens.current().text, "'");
    const bool isNamed = tokens.current().kind == TokenKind::kName && tokens.next().is("=");
    if (!isNamed && !names.empty())
      return tokens.error("a positional argument after a named one");
    if (isNamed) {
      MOERT_ASSIGN_OR_RETURN(names.emplace_back(), tokens.takeName());
      tokens.advance();
    }
    MOERT_ASSIGN_OR_RETURN(children.emplace_back(), parseExpression());
    if (!tokens.current().isOperator(")"))
      MOERT_RETURN_IF_ERROR(tokens.expect(","));
  }
  return names;
}

Result<ExpressionPtr> ExpressionParser::parseFilter(ExpressionPtr input) {
  tokens.advance();
  const uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(const std::string name, tokens.takeName());
  BuiltinExpression filter{"filter", name, findFilter(name), {}};
  Expressions children;
  children.push_back(std::move(input));
  if (tokens.current().isOperator("(")) {
    MOERT_ASSIGN_OR_RETURN(filter.argumentNames, parseArguments(children));
  }
  return make(line, std::move(filter), std::move(children));
}

Result<ExpressionPtr> ExpressionParser::parseTest(ExpressionPtr input) {
  const uint32_t line = tokens.line();
  tokens.advance();
  const bool isNegated = tokens.skip("not");
  MOERT_ASSIGN_OR_RETURN(const std::string name, tokens.takeName());
  BuiltinExpression test{"test", name, findTest(name), {}};
  Expressions children;
  children.push_back(std::move(input));
  const Token &token = tokens.current();
  const bool isLiteral = token.kind >= TokenKind::kName && token.kind <= TokenKind::kNumber;
  if (token.isOperator("(")) {
    MOERT_ASSIGN_OR_RETURN(test.argumentNames, parseArguments(children));
  } else if ((isLiteral || token.isOperator("[") || token.isOperator("{")) &&
             !token.isName("else") && !token.isName("or") && !token.isName("and")) {
    if (token.isName("is"))
      return tokens.error("tests cannot be chained with 'is'");
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr operand, parsePrimary());
    MOERT_ASSIGN_OR_RETURN(children.emplace_back(), parsePostfix(std::move(operand), false));
  }
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr result, make(line, std::move(test), std::move(children)));
  return isNegated ? make(line, Operation{Operator::kNot}, std::move(result))
                   : Result<ExpressionPtr>(std::move(result));
}

// Without operators: names, literals, brackets and targets of assignments
// --------------------------

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
  const uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(std::string name, tokens.takeName());
  if (name == "true" || name == "True" || name == "false" || name == "False")
    return make(line, Literal{Value(name == "true" || name == "True")});
  if (name == "none" || name == "None")
    return make(line, Literal{Value()});
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
