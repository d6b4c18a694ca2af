// Renders a parsed template: walks its tree, with the variables in scopes.
#pragma once

#include "runtime/text/chat/Allowance.h"
#include "runtime/text/chat/Ast.h"
#include "runtime/text/chat/ChatTemplate.h"
#include "runtime/text/chat/Object.h"

#include <map>
#include <memory>
#include <span>

namespace moert::chat {

/// The variables of one block. A macro is evaluated inside the template's scope, the outermost.
struct Scope {
  Scope *parent = nullptr;
  std::map<std::string, Value, std::less<>> variables = {};
};

/// What a statement does to the loop around it.
enum class Flow { kNext, kBreak, kContinue };

/// One rendering. Used by one thread; the template and the context outlive it.
class Evaluator {
public:
  Evaluator(const Dict &contextVariables, const TemplateLimits &limits, LocalClock localClock);
  ~Evaluator();
  Evaluator(const Evaluator &) = delete;
  Evaluator &operator=(const Evaluator &) = delete;

  Result<std::string> run(const Body &body);
  /// The line of the last error.
  uint32_t errorLine() const { return line; }

  // For the builtins and objects.
  Allowance allowance;
  const LocalClock clock;
  /// object.name: an attribute, otherwise an element.
  Result<Value> member(const Value &object, const std::string &name);
  /// object[index]: an element, otherwise an attribute.
  Result<Value> element(const Value &object, const Value &index);
  Result<Value> callMacro(const MacroDefinition &macro, const Arguments &arguments);
  /// Keeps an object that may come to refer to itself, until the end of the rendering.
  void keep(ObjectPtr object) { keptObjects.push_back(std::move(object)); }

private:
  /// Counts a step and a level of the depth, which the caller leaves again.
  Status enter(uint32_t newLine);

  // Expressions: EvaluateExpression.cpp.
  Result<Value> evaluate(const Expression &expression);
  Result<std::vector<Value>> evaluateAll(std::span<const ExpressionPtr> expressions);
  /// A variable, a global function, or an undefined value.
  Result<Value> lookUp(const std::string &name);
  Result<Value> evaluateNode(const Literal &literal, const Expressions &) { return literal.value; }
  Result<Value> evaluateNode(const Name &name, const Expressions &);
  Result<Value> evaluateNode(const ListLiteral &list, const Expressions &items);
  Result<Value> evaluateNode(const DictLiteral &dict, const Expressions &entries);
  Result<Value> evaluateNode(const Operation &operation, const Expressions &operands);
  Result<Value> evaluateNode(const Conditional &conditional, const Expressions &children);
  Result<Value> evaluateNode(const Attribute &attribute, const Expressions &children);
  Result<Value> evaluateNode(const Subscript &subscript, const Expressions &children);
  Result<Value> evaluateNode(const Slice &slice, const Expressions &children);
  Result<Value> evaluateNode(const CallExpression &call, const Expressions &children);
  Result<Value> evaluateNode(const BuiltinExpression &node, const Expressions &children);
  /// The children after the first, of which the last have these names.
  Result<Arguments> evaluateArguments(const Expressions &children,
                                      const std::vector<std::string> &names);

  // Statements: EvaluateStatement.cpp.
  Result<Flow> execute(const Body &body);
  Result<Flow> execute(const Statement &statement);
  Result<Flow> executeNode(const TextOutput &output);
  Result<Flow> executeNode(const Print &print);
  Result<Flow> executeNode(const For &loop);
  Result<Flow> executeNode(const If &statement);
  Result<Flow> executeNode(const Set &set);
  Result<Flow> executeNode(const SetBlock &set);
  Result<Flow> executeNode(const MacroDefinition &macro);
  Result<Flow> executeNode(const Generation &generation);
  Result<Flow> executeNode(const Break &) { return Flow::kBreak; }
  Result<Flow> executeNode(const Continue &) { return Flow::kContinue; }
  Result<Flow> executeInScope(const Body &body);
  /// Runs the body in a scope of its own, with its output going to `text`.
  Result<Flow> capture(const Body &body, std::string &text);
  Status executeLoop(const For &loop, const Value &iterable);
  Result<bool> isSelected(const For &loop, const Value &item);
  Status bindParameters(const MacroDefinition &macro, const Arguments &arguments);
  Status assign(const Target &target, const Value &value);
  Status write(std::string_view text);

  // Scopes.
  class Block; // A scope while it is the current one.
  void setVariable(const std::string &name, Value value);

  const Dict &context;
  Scope *scope = nullptr;    // The current one.
  Scope *topScope = nullptr; // The template's.
  std::vector<ObjectPtr> keptObjects;
  std::string *out = nullptr;
  uint32_t depth = 0;
  uint32_t line = 0;
};

} // namespace moert::chat
