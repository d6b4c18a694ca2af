// Parses expressions by jinja2's grammar, whose precedence differs from Python's in places.
#pragma once

#include "runtime/chat/Ast.h"
#include "runtime/chat/Lexer.h"

namespace moert::chat {

/// Brackets, signs and blocks nested deeper are refused, and so are expressions of more levels.
inline constexpr uint32_t kMaxNesting = 100;
inline constexpr uint32_t kMaxExpressionDepth = 200;

/// The tokens of a template, read once. Never moves past the last, kEnd.
class TokenStream {
public:
  explicit TokenStream(std::vector<Token> templateTokens) : tokens(std::move(templateTokens)) {}

  const Token &current() const { return tokens[place]; }
  const Token &next() const { return tokens[std::min(place + 1, tokens.size() - 1)]; }
  void advance() { place = std::min(place + 1, tokens.size() - 1); }
  uint32_t line() const { return current().line; }

  bool skipName(std::string_view name);
  bool skipOperator(std::string_view symbol);
  Status expectName(std::string_view name);
  Status expectOperator(std::string_view symbol);
  Status expect(TokenKind kind);
  /// Any name.
  Result<std::string> takeName();

  template <typename... Parts> Status error(const Parts &...parts) const {
    return errorAtLine(line(), parts...);
  }
  /// "found this, expected that".
  Status unexpected(std::string_view expected) const;

private:
  std::vector<Token> tokens;
  size_t place = 0;
};

/// Which of the names that need extra work in a macro or a loop its body reads.
struct SpecialNames {
  bool loop = false;
  bool caller = false;
  bool extraPositional = false;
  bool extraNamed = false;

  SpecialNames &operator|=(const SpecialNames &other) {
    loop |= other.loop;
    caller |= other.caller;
    extraPositional |= other.extraPositional;
    extraNamed |= other.extraNamed;
    return *this;
  }
};

class ExpressionParser {
public:
  explicit ExpressionParser(TokenStream &tokenStream) : tokens(tokenStream) {}

  Result<ExpressionPtr> parseExpression(bool withCondition = true);
  /// An expression, or several separated by commas: a tuple. It ends before the name `end`.
  Result<ExpressionPtr> parseTuple(bool withCondition = true, std::string_view end = "");
  /// A name, a namespace's member if allowed, or a tuple of these.
  Result<Target> parseTarget(bool allowsMember, std::string_view end = "");
  /// "| name(arguments) | name..."; the first bar is missing if `startsWithName`.
  Result<std::vector<FilterStep>> parseFilters(bool startsWithName);

  SpecialNames usedNames; // Since the caller last cleared it.

private:
  Result<ExpressionPtr> parseConditional();
  Result<ExpressionPtr> parseBinary(uint32_t level);
  Result<ExpressionPtr> parseNot();
  Result<ExpressionPtr> parseComparison();
  Result<ExpressionPtr> parseConcatenation();
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
  Result<ExpressionPtr> parseTest(ExpressionPtr input);
  Result<FilterStep> parseFilterStep();
  Result<CallArguments> parseArguments();
  Result<Target> parseTargetPart(bool allowsMember);
  Status parseArgument(CallArguments &arguments);

  /// Wraps a node; its depth is one more than that of `children`.
  Result<ExpressionPtr> make(uint32_t line, uint32_t childDepth, Expression::Node node) const;

  TokenStream &tokens;
  uint32_t nesting = 0;
};

} // namespace moert::chat
