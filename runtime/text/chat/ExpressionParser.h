// Parses expressions by jinja2's grammar, whose precedence differs from Python's in places.
#pragma once

#include "runtime/text/chat/Ast.h"
#include "runtime/text/chat/Lexer.h"

#include <optional>

namespace moert::chat {

/// Brackets, signs and blocks nested deeper are refused, and so are expressions of more levels.
inline constexpr uint32_t kMaxNesting = 100;
inline constexpr uint32_t kMaxExpressionDepth = 200;

class ExpressionParser {
public:
  explicit ExpressionParser(TokenStream &tokenStream) : tokens(tokenStream) {}

  Result<ExpressionPtr> parseExpression(bool withCondition = true);
  /// An expression, or several separated by commas: a tuple. It ends before a tag's end or ')'.
  Result<ExpressionPtr> parseTuple(bool withCondition = true);
  /// A name, a namespace's member if allowed, or several names.
  Result<Target> parseTarget(bool allowsMember);

  bool usesLoop = false; // Whether `loop` was read since the caller last cleared it.

private:
  using Node = Expression::Node;

  Result<ExpressionPtr> parseConditional();
  /// Operators of two values that bind at least as tightly as those of `level`.
  Result<ExpressionPtr> parseBinary(uint32_t level);
  std::optional<Operator> takeOperator(uint32_t level);
  Result<ExpressionPtr> parseNot();
  Result<ExpressionPtr> parseUnary(bool withFilter);
  Result<ExpressionPtr> parsePrimary();
  Result<ExpressionPtr> parseName();
  Result<ExpressionPtr> parseString();
  Result<ExpressionPtr> parseNumber();
  Result<ExpressionPtr> parseParentheses();
  Result<ExpressionPtr> parseList();
  Result<ExpressionPtr> parseDict();
  Result<ExpressionPtr> parsePostfix(ExpressionPtr operand, bool withFilter);
  Result<ExpressionPtr> parseMember(ExpressionPtr object);
  Result<ExpressionPtr> parseSubscript(ExpressionPtr object);
  Result<ExpressionPtr> parseCall(ExpressionPtr callee);
  Result<ExpressionPtr> parseFilter(ExpressionPtr input);
  Result<ExpressionPtr> parseTest(ExpressionPtr input);
  /// "(value, name=value)": appends the values to `children` and returns the names.
  Result<std::vector<std::string>> parseArguments(Expressions &children);
  Result<std::string> parseTargetName();

  /// What `parse` returns, one level of nesting deeper; an error if that is too deep.
  template <typename Parse> Result<ExpressionPtr> nested(Parse parse);
  Result<ExpressionPtr> make(uint32_t line, Node node, Expressions children) const;
  template <typename... Children>
  Result<ExpressionPtr> make(uint32_t line, Node node, Children... children) const {
    Expressions list;
    (list.push_back(std::move(children)), ...);
    return make(line, std::move(node), std::move(list));
  }

  TokenStream &tokens;
  uint32_t nesting = 0;
};

} // namespace moert::chat
