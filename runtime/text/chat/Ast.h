// The tree of a parsed template: plain data, which the parser makes and the evaluator walks.
#pragma once

#include "runtime/text/chat/Operators.h"
#include "runtime/text/chat/Value.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace moert::chat {

struct Builtin;
struct Expression;
struct Statement;

using ExpressionPtr = std::unique_ptr<Expression>;
using Expressions = std::vector<ExpressionPtr>;
using Body = std::vector<Statement>;

// Expressions ------------------------------------------------------------------------------------

// With each kind are what its Expression::children are.

struct Literal { // No children.
  Value value;
};
struct Name { // No children.
  std::string name;
};
/// A list or tuple: its items.
struct ListLiteral {
  SequenceKind kind;
};
/// A name and a value for each entry.
struct DictLiteral {};
/// One or two operands. `left and right` and `left or right` are one of these.
struct Operation {
  Operator op;
};
/// The test, the value if it holds, and the other value, which may be null: undefined.
struct Conditional {};
struct Attribute { // The object.
  std::string name;
};
/// The object and the index.
struct Subscript {};
/// object[start:stop:step]: the object and three bounds, each of which may be null.
struct Slice {};
/// The function and its arguments.
struct CallExpression {
  std::vector<std::string> argumentNames; // The last arguments' names.
};
/// input|name(...) or `input is name(...)`: the input and the arguments. An unknown filter or test
/// is an error where it is reached, as in jinja2: templates name those of other engines in branches
/// that are not taken.
struct BuiltinExpression {
  const char *kind; // "filter" or "test".
  std::string name;
  const Builtin *builtin;                 // Null: unknown.
  std::vector<std::string> argumentNames; // The last arguments' names.
};

struct Expression {
  using Node = std::variant<Literal, Name, ListLiteral, DictLiteral, Operation, Conditional,
                            Attribute, Subscript, Slice, CallExpression, BuiltinExpression>;
  uint32_t line;
  uint32_t depth; // Levels of expressions; bounded by the parser.
  Node node;
  Expressions children;
};

// Statements -------------------------------------------------------------------------------------

/// The target of an assignment: names that a value is unpacked to, or a single one, or a member of
/// a namespace.
struct Target {
  std::vector<std::string> names;
  bool isTuple = false;
  std::string member; // Set for a member of the namespace names[0]; empty otherwise.
};

struct TextOutput {
  std::string text;
};
struct Print {
  ExpressionPtr value;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition; // Null: all elements.
  bool usesLoop = false;   // Whether the body reads `loop`.
  Body body;
  Body otherwise; // Executed if there was no iteration.
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
/// {% set name %}...{% endset %}
struct SetBlock {
  Target target;
  Body body;
};
/// At the template's top, outside of loops and blocks.
struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  Expressions defaults; // Belong to the last parameters.
  Body body;
};
/// {% generation %}: marks the assistant's text for training; here only a scope.
struct Generation {
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<TextOutput, Print, For, If, Set, SetBlock, MacroDefinition, Generation,
                            Break, Continue>;
  uint32_t line;
  Node node;
};

/// Parser.cpp. The source is valid UTF-8. An error names the line.
Result<Body> parseTemplate(std::string_view source);

} // namespace moert::chat
