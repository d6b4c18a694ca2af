#include "runtime/chat/Parser.h"

#include "runtime/base/Excerpt.h"
#include "runtime/chat/ExpressionParser.h"

#include <algorithm>
#include <initializer_list>

namespace moert::chat {

namespace {

class Parser {
public:
  explicit Parser(TokenStream &tokenStream) : tokens(tokenStream), expressions(tokenStream) {}

  Result<Body> parseAll() {
    MOERT_ASSIGN_OR_RETURN(Body body, parseUntil({}));
    return body;
  }

private:
  using Names = std::initializer_list<std::string_view>;
  struct Tag {
    std::string_view name;
    Result<Statement::Node> (Parser::*parse)();
  };

  const Tag *findTag(std::string_view name) const {
    static constexpr Tag kTags[] = {
        {"for", &Parser::parseFor},     {"if", &Parser::parseIf},
        {"set", &Parser::parseSet},     {"macro", &Parser::parseMacro},
        {"call", &Parser::parseCall},   {"filter", &Parser::parseFilter},
        {"with", &Parser::parseWith},   {"generation", &Parser::parseGeneration},
        {"break", &Parser::parseBreak}, {"continue", &Parser::parseContinue},
        {"print", &Parser::parsePrint},
    };
    for (const Tag &tag : kTags)
      if (tag.name == name)
        return &tag;
    return nullptr;
  }

  /// Statements up to a tag with one of these names, which becomes the current token. Without
  /// names, up to the end of the template.
  Result<Body> parseUntil(Names ends) {
    if (++nesting > kMaxNesting)
      return tokens.error("blocks are nested deeper than ", kMaxNesting, " levels");
    Body body;
    for (;;) {
      const Token &token = tokens.current();
      const uint32_t line = token.line;
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0)
          return tokens.unexpected(strCat("{% ", *(ends.end() - 1), " %}"));
        break;
      }
      if (token.kind == TokenKind::kText) {
        body.push_back({line, TextOutput{token.text}});
        tokens.advance();
      } else if (token.kind == TokenKind::kVariableBegin) {
        tokens.advance();
        MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, expressions.parseTuple());
        MOERT_RETURN_IF_ERROR(tokens.expect(TokenKind::kVariableEnd));
        body.push_back({line, Print{std::move(value)}});
      } else {
        MOERT_RETURN_IF_ERROR(tokens.expect(TokenKind::kBlockBegin));
        if (isOneOf(ends))
          break;
        MOERT_ASSIGN_OR_RETURN(Statement::Node node, parseStatement());
        MOERT_RETURN_IF_ERROR(tokens.expect(TokenKind::kBlockEnd));
        body.push_back({line, std::move(node)});
      }
    }
    --nesting;
    return body;
  }

  bool isOneOf(Names names) const {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return tokens.current().isName(name); });
  }

  Result<Statement::Node> parseStatement() {
    const uint32_t line = tokens.line();
    MOERT_ASSIGN_OR_RETURN(const std::string name, tokens.takeName());
    const Tag *tag = findTag(name);
    if (!tag)
      return errorAtLine(line, "the tag '", excerpt(name), "' is not supported here");
    return (this->*tag->parse)();
  }

  /// The rest of the opening tag, the statements, and the closing name.
  Result<Body> parseBody(Names ends) {
    tokens.skipOperator(":");
    MOERT_RETURN_IF_ERROR(tokens.expect(TokenKind::kBlockEnd));
    return parseUntil(ends);
  }
  Result<Body> parseWholeBody(std::string_view end) {
    MOERT_ASSIGN_OR_RETURN(Body body, parseBody({end}));
    tokens.advance();
    return body;
  }

  Result<Statement::Node> parseFor() {
    For loop;
    MOERT_ASSIGN_OR_RETURN(loop.target, expressions.parseTarget(false, "in"));
    MOERT_RETURN_IF_ERROR(tokens.expectName("in"));
    MOERT_ASSIGN_OR_RETURN(loop.iterable, expressions.parseTuple(false, "recursive"));
    if (tokens.skipName("if")) {
      MOERT_ASSIGN_OR_RETURN(loop.condition, expressions.parseExpression());
    }
    loop.isRecursive = tokens.skipName("recursive");
    ++loops;
    const bool outerUsesLoop = std::exchange(expressions.usedNames.loop, false);
    MOERT_ASSIGN_OR_RETURN(loop.body, parseBody({"else", "endfor"}));
    loop.usesLoop = std::exchange(expressions.usedNames.loop, outerUsesLoop);
    --loops;
    if (tokens.skipName("else")) {
      MOERT_ASSIGN_OR_RETURN(loop.otherwise, parseBody({"endfor"}));
    }
    tokens.advance();
    return Statement::Node(std::move(loop));
  }

  Result<Statement::Node> parseIf() {
    If statement;
    do {
      MOERT_ASSIGN_OR_RETURN(ExpressionPtr test, expressions.parseTuple(false));
      MOERT_ASSIGN_OR_RETURN(Body body, parseBody({"elif", "else", "endif"}));
      statement.branches.emplace_back(std::move(test), std::move(body));
    } while (tokens.skipName("elif"));
    if (tokens.skipName("else")) {
      MOERT_ASSIGN_OR_RETURN(statement.otherwise, parseBody({"endif"}));
    }
    tokens.advance();
    return Statement::Node(std::move(statement));
  }

  Result<Statement::Node> parseSet() {
    MOERT_ASSIGN_OR_RETURN(Target target, expressions.parseTarget(true));
    if (tokens.skipOperator("=")) {
      MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, expressions.parseTuple());
      return Statement::Node(Set{std::move(target), std::move(value)});
    }
    MOERT_ASSIGN_OR_RETURN(std::vector<FilterStep> filters, expressions.parseFilters(false));
    MOERT_ASSIGN_OR_RETURN(Body body, parseWholeBody("endset"));
    return Statement::Node(SetBlock{std::move(target), std::move(filters), std::move(body)});
  }

  Status parseParameters(MacroDefinition &macro) {
    MOERT_RETURN_IF_ERROR(tokens.expectOperator("("));
    while (!tokens.skipOperator(")")) {
      MOERT_ASSIGN_OR_RETURN(std::string name, tokens.takeName());
      if (std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
          macro.parameters.end())
        return tokens.error("the parameter '", excerpt(name), "' twice, expected each once");
      macro.parameters.push_back(std::move(name));
      if (tokens.skipOperator("=")) {
        MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, expressions.parseExpression());
        macro.defaults.push_back(std::move(value));
      } else if (!macro.defaults.empty()) {
        return tokens.error("a parameter without a default after one with a default");
      }
      if (!tokens.current().isOperator(")"))
        MOERT_RETURN_IF_ERROR(tokens.expectOperator(","));
    }
    return {};
  }

  /// A macro's statements. They cannot end a loop that is around the macro.
  Status parseMacroBody(std::string_view end, MacroDefinition &macro) {
    const uint32_t outerLoops = std::exchange(loops, 0);
    const SpecialNames outerNames = std::exchange(expressions.usedNames, {});
    MOERT_ASSIGN_OR_RETURN(macro.body, parseWholeBody(end));
    const SpecialNames names = expressions.usedNames;
    expressions.usedNames |= outerNames; // As jinja2: a name in an inner macro counts for both.
    loops = outerLoops;
    macro.usesCaller = names.caller;
    macro.usesExtraPositional = names.extraPositional;
    macro.usesExtraNamed = names.extraNamed;
    return {};
  }

  Result<Statement::Node> parseMacro() {
    MacroStatement statement;
    MOERT_ASSIGN_OR_RETURN(statement.macro.name, tokens.takeName());
    MOERT_RETURN_IF_ERROR(parseParameters(statement.macro));
    MOERT_RETURN_IF_ERROR(parseMacroBody("endmacro", statement.macro));
    return Statement::Node(std::move(statement));
  }

  Result<Statement::Node> parseCall() {
    CallStatement statement;
    statement.caller.name = "caller";
    if (tokens.current().isOperator("("))
      MOERT_RETURN_IF_ERROR(parseParameters(statement.caller));
    const uint32_t line = tokens.line();
    MOERT_ASSIGN_OR_RETURN(statement.call, expressions.parseExpression());
    if (!std::holds_alternative<CallExpression>(statement.call->node))
      return errorAtLine(line, "found another expression after 'call', expected a call");
    MOERT_RETURN_IF_ERROR(parseMacroBody("endcall", statement.caller));
    return Statement::Node(std::move(statement));
  }

  Result<Statement::Node> parseFilter() {
    FilterBlock block;
    MOERT_ASSIGN_OR_RETURN(block.filters, expressions.parseFilters(true));
    MOERT_ASSIGN_OR_RETURN(block.body, parseWholeBody("endfilter"));
    return Statement::Node(std::move(block));
  }

  Result<Statement::Node> parseWith() {
    With statement;
    while (tokens.current().kind != TokenKind::kBlockEnd) {
      if (!statement.assignments.empty())
        MOERT_RETURN_IF_ERROR(tokens.expectOperator(","));
      MOERT_ASSIGN_OR_RETURN(Target target, expressions.parseTarget(false));
      MOERT_RETURN_IF_ERROR(tokens.expectOperator("="));
      MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, expressions.parseExpression());
      statement.assignments.emplace_back(std::move(target), std::move(value));
    }
    MOERT_ASSIGN_OR_RETURN(statement.body, parseWholeBody("endwith"));
    return Statement::Node(std::move(statement));
  }

  Result<Statement::Node> parseGeneration() {
    const uint32_t outerLoops = std::exchange(loops, 0); // As jinja2: its body is a function.
    MOERT_ASSIGN_OR_RETURN(Body body, parseWholeBody("endgeneration"));
    loops = outerLoops;
    return Statement::Node(Generation{std::move(body)});
  }

  Result<Statement::Node> parsePrint() {
    MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, expressions.parseExpression());
    return Statement::Node(Print{std::move(value)});
  }

  Result<Statement::Node> parseBreak() { return parseJump(Break{}, "break"); }
  Result<Statement::Node> parseContinue() { return parseJump(Continue{}, "continue"); }
  Result<Statement::Node> parseJump(Statement::Node jump, std::string_view name) const {
    if (loops == 0)
      return tokens.error("'", name, "' outside of a loop");
    return jump;
  }

  TokenStream &tokens;
  ExpressionParser expressions;
  uint32_t nesting = 0;
  uint32_t loops = 0; // Around the current statement, which may end them.
};

} // namespace

Result<Body> parseTemplate(std::string_view source) {
  MOERT_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  TokenStream stream(std::move(tokens));
  return Parser(stream).parseAll();
}

} // namespace moert::chat
