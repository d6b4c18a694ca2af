#include "runtime/chat/ExpressionParser.h"

#include "runtime/base/Excerpt.h"
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/Builtins.h"

#include <algorithm>
#include <array>

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

uint32_t depthOf(const ExpressionPtr &expression) {
  return expression ? expression->depth : 0;
}

uint32_t depthOf(const std::vector<ExpressionPtr> &expressions) {
  uint32_t depth = 0;
  for (const ExpressionPtr &expression : expressions)
    depth = std::max(depth, depthOf(expression));
  return depth;
}

uint32_t depthOf(const CallArguments &arguments) {
  uint32_t depth = std::max({depthOf(arguments.positional), depthOf(arguments.unpackedList),
                             depthOf(arguments.unpackedDict)});
  for (const auto &argument : arguments.named)
    depth = std::max(depth, depthOf(argument.second));
  return depth;
}

struct BinarySymbol {
  std::string_view symbol;
  BinaryOperator op;
};

constexpr std::array<BinarySymbol, 2> kSums = {
    {{"+", BinaryOperator::kAdd}, {"-", BinaryOperator::kSubtract}}};
constexpr std::array<BinarySymbol, 4> kProducts = {{{"*", BinaryOperator::kMultiply},
                                                    {"/", BinaryOperator::kDivide},
                                                    {"//", BinaryOperator::kFloorDivide},
                                                    {"%", BinaryOperator::kModulo}}};
constexpr std::array<BinarySymbol, 1> kPowers = {{{"**", BinaryOperator::kPower}}};

template <size_t n>
const BinarySymbol *findSymbol(const std::array<BinarySymbol, n> &symbols, const Token &token) {
  for (const BinarySymbol &symbol : symbols)
    if (token.isOperator(symbol.symbol))
      return &symbol;
  return nullptr;
}

struct CompareSymbol {
  std::string_view symbol;
  CompareOperator op;
};
constexpr CompareSymbol kComparisons[] = {
    {"==", CompareOperator::kEqual},        {"!=", CompareOperator::kNotEqual},
    {"<=", CompareOperator::kLessEqual},    {"<", CompareOperator::kLess},
    {">=", CompareOperator::kGreaterEqual}, {">", CompareOperator::kGreater},
};

} // namespace

Result<ExpressionPtr> ExpressionParser::make(uint32_t line, uint32_t childDepth,
                                             Expression::Node node) const {
  if (childDepth >= kMaxExpressionDepth)
    return errorAtLine(line, "an expression of more than ", kMaxExpressionDepth,
                       " levels; expected fewer");
  return std::make_unique<Expression>(Expression{line, childDepth + 1, std::move(node)});
}

Result<ExpressionPtr> ExpressionParser::parseExpression(bool withCondition) {
  const Nesting level(nesting);
  if (nesting > kMaxNesting)
    return tokens.error("expressions are nested deeper than ", kMaxNesting, " levels");
  return withCondition ? parseConditional() : parseBinary(0);
}

Result<ExpressionPtr> ExpressionParser::parseConditional() {
  uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, parseBinary(0));
  while (tokens.skipName("if")) {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr test, parseBinary(0));
    ExpressionPtr otherwise;
    if (tokens.skipName("else")) {
      MOERT_ASSIGN_OR_RETURN(otherwise, parseExpression());
    }
    const uint32_t depth = std::max({depthOf(value), depthOf(test), depthOf(otherwise)});
    MOERT_ASSIGN_OR_RETURN(
        value,
        make(line, depth, Conditional{std::move(test), std::move(value), std::move(otherwise)}));
    line = tokens.line();
  }
  return value;
}

/// Level 0 is `or`, level 1 `and`.
Result<ExpressionPtr> ExpressionParser::parseBinary(uint32_t level) {
  const uint32_t line = tokens.line();
  auto parseOperand = [&] { return level == 0 ? parseBinary(1) : parseNot(); };
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr left, parseOperand());
  while (tokens.skipName(level == 0 ? "or" : "and")) {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr right, parseOperand());
    const uint32_t depth = std::max(depthOf(left), depthOf(right));
    MOERT_ASSIGN_OR_RETURN(
        left, make(line, depth, Logical{level == 1, std::move(left), std::move(right)}));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::parseNot() {
  const uint32_t line = tokens.line();
  if (!tokens.skipName("not"))
    return parseComparison();
  const Nesting level(nesting);
  if (nesting > kMaxNesting)
    return tokens.error("expressions are nested deeper than ", kMaxNesting, " levels");
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr operand, parseNot());
  const uint32_t depth = depthOf(operand);
  return make(line, depth, Unary{UnaryOperator::kNot, std::move(operand)});
}

namespace {

std::optional<CompareOperator> takeComparison(TokenStream &tokens) {
  for (const CompareSymbol &comparison : kComparisons)
    if (tokens.skipOperator(comparison.symbol))
      return comparison.op;
  if (tokens.skipName("in"))
    return CompareOperator::kIn;
  if (!tokens.current().isName("not") || !tokens.next().isName("in"))
    return std::nullopt;
  tokens.advance();
  tokens.advance();
  return CompareOperator::kNotIn;
}

/// A chain of operators of one precedence, from the left.
template <size_t n, typename ParseOperand, typename Make>
Result<ExpressionPtr> parseChain(TokenStream &tokens, const std::array<BinarySymbol, n> &symbols,
                                 ParseOperand parseOperand, Make make) {
  const uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr left, parseOperand());
  while (const BinarySymbol *symbol = findSymbol(symbols, tokens.current())) {
    tokens.advance();
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr right, parseOperand());
    const uint32_t depth = std::max(depthOf(left), depthOf(right));
    MOERT_ASSIGN_OR_RETURN(
        left, make(line, depth, Binary{symbol->op, std::move(left), std::move(right)}));
  }
  return left;
}

} // namespace

Result<ExpressionPtr> ExpressionParser::parseComparison() {
  auto makeNode = [&](uint32_t line, uint32_t depth, Expression::Node node) {
    return make(line, depth, std::move(node));
  };
  auto parseSum = [&] {
    return parseChain(
        tokens, kSums, [&] { return parseConcatenation(); }, makeNode);
  };
  const uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr first, parseSum());
  Comparison comparison;
  uint32_t depth = depthOf(first);
  while (const std::optional<CompareOperator> op = takeComparison(tokens)) {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr operand, parseSum());
    depth = std::max(depth, depthOf(operand));
    comparison.rest.emplace_back(*op, std::move(operand));
  }
  if (comparison.rest.empty())
    return first;
  comparison.first = std::move(first);
  return make(line, depth, std::move(comparison));
}

Result<ExpressionPtr> ExpressionParser::parseConcatenation() {
  auto makeNode = [&](uint32_t line, uint32_t depth, Expression::Node node) {
    return make(line, depth, std::move(node));
  };
  auto parsePower = [&] {
    return parseChain(
        tokens, kPowers, [&] { return parseUnary(true); }, makeNode);
  };
  auto parseProduct = [&] { return parseChain(tokens, kProducts, parsePower, makeNode); };
  const uint32_t line = tokens.line();
  Concatenation concatenation;
  do {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr part, parseProduct());
    concatenation.parts.push_back(std::move(part));
  } while (tokens.skipOperator("~"));
  if (concatenation.parts.size() == 1)
    return std::move(concatenation.parts[0]);
  const uint32_t depth = depthOf(concatenation.parts);
  return make(line, depth, std::move(concatenation));
}

Result<ExpressionPtr> ExpressionParser::parseUnary(bool withFilter) {
  const Nesting level(nesting);
  if (nesting > kMaxNesting)
    return tokens.error("expressions are nested deeper than ", kMaxNesting, " levels");
  const uint32_t line = tokens.line();
  const bool isMinus = tokens.current().isOperator("-");
  if (!isMinus && !tokens.current().isOperator("+")) {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr operand, parsePrimary());
    return parsePostfix(std::move(operand), withFilter);
  }
  tokens.advance();
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr operand, parseUnary(false));
  const uint32_t depth = depthOf(operand);
  MOERT_ASSIGN_OR_RETURN(
      ExpressionPtr signedOperand,
      make(line, depth,
           Unary{isMinus ? UnaryOperator::kMinus : UnaryOperator::kPlus, std::move(operand)}));
  return parsePostfix(std::move(signedOperand), withFilter);
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
    else if (withFilter && token.isOperator("|")) {
      isFiltered = true;
      tokens.advance();
      MOERT_ASSIGN_OR_RETURN(FilterStep step, parseFilterStep());
      const uint32_t depth = std::max(depthOf(operand), depthOf(step.arguments));
      next = make(step.line, depth, FilterExpression{std::move(operand), std::move(step)});
    } else if (withFilter && token.isName("is")) {
      isFiltered = true;
      next = parseTest(std::move(operand));
    } else {
      return operand;
    }
    MOERT_ASSIGN_OR_RETURN(operand, std::move(next));
  }
}

Result<ExpressionPtr> ExpressionParser::parseMember(ExpressionPtr object) {
  const uint32_t line = tokens.line(), depth = object->depth;
  tokens.advance();
  const Token token = tokens.current();
  tokens.advance();
  if (token.kind == TokenKind::kName)
    return make(line, depth, Attribute{std::move(object), token.text});
  if (token.kind != TokenKind::kInteger)
    return errorAtLine(token.line, "expected a name or a number after '.'");
  const std::optional<Result<int64_t>> index = parseInteger(token.text, 0);
  if (!index || !index->isOk())
    return errorAtLine(token.line, "'", token.text, "' is too large for an index");
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr place, make(line, 0, Literal{Value(index->value())}));
  return make(line, depth, Subscript{std::move(object), std::move(place)});
}

Result<ExpressionPtr> ExpressionParser::parseSubscript(ExpressionPtr object) {
  const uint32_t line = tokens.line();
  tokens.advance();
  ExpressionPtr bounds[3];
  uint32_t depth = object->depth;
  size_t colons = 0;
  for (; !tokens.current().isOperator("]"); ++colons) {
    if (!tokens.current().isOperator(":")) {
      MOERT_ASSIGN_OR_RETURN(bounds[colons], parseExpression());
      depth = std::max(depth, depthOf(bounds[colons]));
    }
    if (colons == 2 || !tokens.skipOperator(":"))
      break;
  }
  if (tokens.current().isOperator(","))
    return tokens.error("a subscript of several values is not supported");
  MOERT_RETURN_IF_ERROR(tokens.expectOperator("]"));
  if (colons > 0)
    return make(line, depth,
                Slice{std::move(object),
                      {std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])}});
  if (!bounds[0])
    return errorAtLine(line, "an empty subscript, expected a value between the brackets");
  return make(line, depth, Subscript{std::move(object), std::move(bounds[0])});
}

Result<ExpressionPtr> ExpressionParser::parseCall(ExpressionPtr callee) {
  const uint32_t line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(CallArguments arguments, parseArguments());
  const uint32_t depth = std::max(depthOf(callee), depthOf(arguments));
  return make(line, depth, CallExpression{std::move(callee), std::move(arguments)});
}

Status ExpressionParser::parseArgument(CallArguments &arguments) {
  const bool isNamed = tokens.current().kind == TokenKind::kName && tokens.next().isOperator("=");
  if (tokens.skipOperator("**")) {
    if (arguments.unpackedDict)
      return tokens.error("a second ** in a call");
    MOERT_ASSIGN_OR_RETURN(arguments.unpackedDict, parseExpression());
    return {};
  }
  if (arguments.unpackedDict || (arguments.unpackedList && !isNamed))
    return tokens.error("an argument after * or **");
  if (tokens.skipOperator("*")) {
    MOERT_ASSIGN_OR_RETURN(arguments.unpackedList, parseExpression());
    return {};
  }
  if (!isNamed && !arguments.named.empty())
    return tokens.error("a positional argument after a named one");
  std::string name;
  if (isNamed) {
    MOERT_ASSIGN_OR_RETURN(name, tokens.takeName());
    tokens.advance();
  }
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, parseExpression());
  if (isNamed)
    arguments.named.emplace_back(std::move(name), std::move(value));
  else
    arguments.positional.push_back(std::move(value));
  return {};
}

Result<CallArguments> ExpressionParser::parseArguments() {
  CallArguments arguments;
  MOERT_RETURN_IF_ERROR(tokens.expectOperator("("));
  while (!tokens.skipOperator(")")) {
    MOERT_RETURN_IF_ERROR(parseArgument(arguments));
    if (!tokens.current().isOperator(")"))
      MOERT_RETURN_IF_ERROR(tokens.expectOperator(","));
  }
  return arguments;
}

Result<FilterStep> ExpressionParser::parseFilterStep() {
  FilterStep step;
  step.line = tokens.line();
  MOERT_ASSIGN_OR_RETURN(const std::string name, tokens.takeName());
  step.filter = findFilter(name);
  if (!step.filter)
    step.unknownName = name;
  if (tokens.current().isOperator("(")) {
    MOERT_ASSIGN_OR_RETURN(step.arguments, parseArguments());
  }
  return step;
}

Result<std::vector<FilterStep>> ExpressionParser::parseFilters(bool startsWithName) {
  std::vector<FilterStep> steps;
  while (startsWithName || tokens.skipOperator("|")) {
    startsWithName = false;
    MOERT_ASSIGN_OR_RETURN(FilterStep step, parseFilterStep());
    steps.push_back(std::move(step));
  }
  return steps;
}

Result<ExpressionPtr> ExpressionParser::parseTest(ExpressionPtr input) {
  const uint32_t line = tokens.line();
  tokens.advance();
  const bool isNegated = tokens.skipName("not");
  MOERT_ASSIGN_OR_RETURN(const std::string name, tokens.takeName());
  const Builtin *test = findTest(name);
  CallArguments arguments;
  const Token &token = tokens.current();
  const bool isLiteral = token.kind >= TokenKind::kName && token.kind <= TokenKind::kFloat;
  if (token.isOperator("(")) {
    MOERT_ASSIGN_OR_RETURN(arguments, parseArguments());
  } else if ((isLiteral || token.isOperator("[") || token.isOperator("{")) &&
             !token.isName("else") && !token.isName("or") && !token.isName("and")) {
    if (token.isName("is"))
      return tokens.error("tests cannot be chained with 'is'");
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr operand, parsePrimary());
    MOERT_ASSIGN_OR_RETURN(operand, parsePostfix(std::move(operand), false));
    arguments.positional.push_back(std::move(operand));
  }
  const uint32_t depth = std::max(depthOf(input), depthOf(arguments));
  MOERT_ASSIGN_OR_RETURN(ExpressionPtr result,
                         make(line, depth,
                              TestExpression{std::move(input), test, std::move(arguments),
                                             test ? std::string() : name}));
  if (!isNegated)
    return result;
  return make(line, depth + 1, Unary{UnaryOperator::kNot, std::move(result)});
}

} // namespace moert::chat
