// The statements of a template.
#include "runtime/base/Excerpt.h"
#include "runtime/text/chat/ExpressionParser.h"

#include <algorithm>
#include <initializer_list>

namespace moert::chat {

namespace {

class Parser {
public:
  explicit Parser(TokenStream &tokenStream) : tokens(tokenStream), expressions(tokenStream) {}

  Result<Body> parseAll() { return parseUntil({}); }

private:
  using Names = std::initializer_list<std::string_view>;
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
    if (name == "for")
      return parseFor();
    if (name == "if")
      return parseIf();
    if (name == "set")
      return parseSet();
    if (name == "macro")
      return parseMacro();
    if (name == "generation")
      return parseGeneration();
    if (name != "break" && name != "continue")
      return errorAtLine(line, "the tag '", excerpt(name), "' is not supported here");
    if (loops == 0)
      return errorAtLine(line, "'", name, "' outside of a loop");
    return name == "break" ? Statement::Node(Break{}) : Statement::Node(Continue{});
  }

  /// The rest of the opening tag, the statements, and the closing name.
  Result<Body> parseBody(Names ends) {
    tokens.skip(":");
    MOERT_RETURN_IF_ERROR(tokens.expect(TokenKind::kBlockEnd));
    return parseUntil(ends);
  }

  /// A body that is a scope of its own, and that a jump in it does not leave unless it is a loop's.
  Result<Body> parseScope(std::string_view end) {
    const uint32_t outerLoops = std::exchange(loops, 0);
    ++scopes;
    MOERT_ASSIGN_OR_RETURN(Body body, parseBody({end}));
    --scopes;
    loops = outerLoops;
    tokens.advance();
    return body;
  }

  Result<Statement::Node> parseFor() {
    For loop;
    MOERT_ASSIGN_OR_RETURN(loop.target, expressions.parseTarget(false));
    MOERT_RETURN_IF_ERROR(tokens.expect("in"));
    MOERT_ASSIGN_OR_RETURN(loop.iterable, expressions.parseTuple(false));
    if (tokens.skip("if")) {
      MOERT_ASSIGN_OR_RETURN(loop.condition, expressions.parseExpression());
    }
    if (tokens.current().isName("recursive"))
      return tokens.notSupported("a recursive loop");
    ++loops;
    ++scopes;
    const bool outerUsesLoop = std::exchange(expressions.usesLoop, false);
    MOERT_ASSIGN_OR_RETURN(loop.body, parseBody({"else", "endfor"}));
    loop.usesLoop = std::exchange(expressions.usesLoop, outerUsesLoop);
    --loops;
    if (tokens.skip("else")) {
      MOERT_ASSIGN_OR_RETURN(loop.otherwise, parseBody({"endfor"}));
    }
    --scopes;
    tokens.advance();
    return Statement::Node(std::move(loop));
  }

  Result<Statement::Node> parseIf() {
    If statement;
    do {
      MOERT_ASSIGN_OR_RETURN(ExpressionPtr test, expressions.parseTuple(false));
      MOERT_ASSIGN_OR_RETURN(Body body, parseBody({"elif", "else", "endif"}));
      statement.branches.emplace_back(std::move(test), std::move(body));
    } while (tokens.skip("elif"));
    if (tokens.skip("else")) {
      MOERT_ASSIGN_OR_RETURN(statement.otherwise, parseBody({"endif"}));
    }
    tokens.advance();
    return Statement::Node(std::move(statement));
  }

  Result<Statement::Node> parseSet() {
    MOERT_ASSIGN_OR_RETURN(Target target, expressions.parseTarget(true));
    if (tokens.skip("=")) {
      MOERT_ASSIGN_OR_RETURN(ExpressionPtr value, expressions.parseTuple());
      return Statement::Node(Set{std::move(target), std::move(value)});
    }
    if (tokens.current().isOperator("|"))
      return tokens.notSupported("a filter of a set block");
    MOERT_ASSIGN_OR_RETURN(Body body, parseScope("endset"));
    return Statement::Node(SetBlock{std::move(target), std::move(body)});
  }

  Status parseParameters(MacroDefinition &macro) {
    MOERT_RETURN_IF_ERROR(tokens.expect("("));
    while (!tokens.skip(")")) {
      MOERT_ASSIGN_OR_RETURN(std::string name, tokens.takeName());
      if (std::find(macro.parameters.begin(), macro.parameters.end(), name) !=
          macro.parameters.end())
        return tokens.error("the parameter '", excerpt(name), "' twice, expected each once");
      macro.parameters.push_back(std::move(name));
      if (tokens.skip("=")) {
        MOERT_ASSIGN_OR_RETURN(macro.defaults.emplace_back(), expressions.parseExpression());
      } else if (!macro.defaults.empty()) {
        return tokens.error("a parameter without a default after one with a default");
      }
      if (!tokens.current().isOperator(")"))
        MOERT_RETURN_IF_ERROR(tokens.expect(","));
    }
    return {};
  }

  Result<Statement::Node> parseMacro() {
    if (scopes > 0)
      return tokens.notSupported("a macro inside a loop, a block or another macro");
    MacroDefinition macro;
    MOERT_ASSIGN_OR_RETURN(macro.name, tokens.takeName());
    MOERT_RETURN_IF_ERROR(parseParameters(macro));
    MOERT_ASSIGN_OR_RETURN(macro.body, parseScope("endmacro"));
    return Statement::Node(std::move(macro));
  }

  Result<Statement::Node> parseGeneration() {
    MOERT_ASSIGN_OR_RETURN(Body body, parseScope("endgeneration"));
    return Statement::Node(Generation{std::move(body)});
  }

  TokenStream &tokens;
  ExpressionParser expressions;
  uint32_t nesting = 0;
  uint32_t loops = 0;  // Around the current statement, which may end them.
  uint32_t scopes = 0; // Around the current statement.
};

} // namespace

Result<Body> parseTemplate(std::string_view source) {
  MOERT_ASSIGN_OR_RETURN(std::vector<Token> tokens, tokenize(source));
  TokenStream stream(std::move(tokens));
  return Parser(stream).parseAll();
}

} // namespace moert::chat
