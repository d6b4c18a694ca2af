// The tree of a parsed template: plain data, which the parser makes and the evaluator walks.
#pragma once

#include "runtime/chat/Operators.h"
#include "runtime/chat/Value.h"

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
using Body = std::vector<Statement>;

// Expressions ------------------------------------------------------------------------------------

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr unpackedList; // *list; null if there is none.
  ExpressionPtr unpackedDict; // **dict, likewise.
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListLiteral {
  SequenceKind kind; // A list or a tuple.
  std::vector<ExpressionPtr> items;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
enum class UnaryOperator { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};
struct Binary {
  BinaryOperator op;
  ExpressionPtr left;
  ExpressionPtr right;
};
/// `left and right`, `left or right`: one of the operands.
struct Logical {
  bool isAnd;
  ExpressionPtr left;
  ExpressionPtr right;
};
/// a < b <= c.
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<CompareOperator, ExpressionPtr>> rest;
};
/// a ~ b ~ c.
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
struct Conditional {
  ExpressionPtr test;
  ExpressionPtr then;
  ExpressionPtr otherwise; // May be null: undefined.
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object;
  ExpressionPtr index;
};
/// object[start:stop:step]; each bound may be null.
struct Slice {
  ExpressionPtr object;
  ExpressionPtr bounds[3];
};
struct CallExpression {
  ExpressionPtr callee;
  CallArguments arguments;
};
/// One filter with its arguments. An unknown one is an error where it is reached, as in jinja2:
/// templates name filters and tests of other engines in branches that are not taken.
struct FilterStep {
  uint32_t line;
  const Builtin *filter; // Null: unknown.
  CallArguments arguments;
  std::string unknownName = {};
};
struct FilterExpression {
  ExpressionPtr input;
  FilterStep step;
};
struct TestExpression {
  ExpressionPtr input;
  const Builtin *test; // Null: unknown.
  CallArguments arguments;
  std::string unknownName = {};
};

struct Expression {
  using Node = std::variant<Literal, Name, ListLiteral, DictLiteral, Unary, Binary, Logical,
                            Comparison, Concatenation, Conditional, Attribute, Subscript, Slice,
                            CallExpression, FilterExpression, TestExpression>;
  uint32_t line;
  uint32_t depth; // Levels of expressions; bounded by the parser.
  Node node;
};

// Statements -------------------------------------------------------------------------------------

/// The target of an assignment: a name, a namespace's member, or a tuple of these.
struct Target {
  std::string name;
  std::string member;        // Set for a member of the namespace `name`; empty for a name.
  std::vector<Target> parts; // The parts of a tuple; then name is empty.
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
  bool isRecursive = false;
  bool usesLoop = false; // Whether the body reads `loop`.
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
  std::vector<FilterStep> filters;
  Body body;
};
/// Shared by macro statements and the bodies of call statements.
struct MacroDefinition {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExpressionPtr> defaults; // Belong to the last parameters.
  Body body;
  bool usesExtraPositional = false; // Reads `varargs`.
  bool usesExtraNamed = false;      // Reads `kwargs`.
  bool usesCaller = false;
};
struct MacroStatement {
  MacroDefinition macro;
};
struct CallStatement {
  ExpressionPtr call; // A CallExpression.
  MacroDefinition caller;
};
struct FilterBlock {
  std::vector<FilterStep> filters;
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Body body;
};
/// {% generation %}: marks the assistant's text for training; here only a scope.
struct Generation {
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<TextOutput, Print, For, If, Set, SetBlock, MacroStatement,
                            CallStatement, FilterBlock, With, Generation, Break, Continue>;
  uint32_t line;
  Node node;
};

} // namespace moert::chat
