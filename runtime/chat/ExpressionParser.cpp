#include "runtime/chat/ExpressionParser.h"

#include "runtime/chat/Builtins.h"

#include <algorithm>

namespace moert::chat {

namespace {

/// Counts one level of nesting while it lives.
class Nesting {
public:
  explicit Nesting(uint32_t &nestingCount) : count(nestingCount) { ++count; }
  ~Nesting() { --count; }
  Nesting(const Nesting &) = delete;
  Nesting &operator=(const Nesting &) = delete;

private:
  uint32_t &count;
};

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

Status ExpressionParser::checkNesting() const {
  return nesting > kMaxNesting
             ? tokens.error("expressions are nested deeper than ", kMaxNesting, " levels")
             : Status();
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
  const Nesting level(nesting);
  MOERT_RETURN_IF_ERROR(checkNesting());
  return withCondition ? parseConditional() : parseBinary(0);
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
  const Nesting level(nesting);
  MOERT_RETURN_IF_ERROR(checkNesting());
  const uint32_t line = tokens.line();
  tokens.advance();
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr operand, parseBinary(kNotLevel));
  return make(line, Operation{Operator::kNot}, std::move(operand));
}

Result<ExpressionPtr> ExpressionParser::parseUnary(bool withFilter) {
  const Nesting level(nesting);
  MOERT_RETURN_IF_ERROR(checkNesting());
  const uint32_t line = tokens.line();
  const bool isMinus = tokens.skip("-");
  ExpressionPtr operand;
  if (isMinus || tokens.skip("+")) {
    MOERT_ASSIGN_OR_RETURN(operand, parseUnary(false));
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

} // namespace moert::chat
