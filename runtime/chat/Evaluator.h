// Renders a parsed template: walks its tree, with the variables in scopes.
#pragma once

#include "runtime/chat/Allowance.h"
#include "runtime/chat/Ast.h"
#include "runtime/chat/ChatTemplate.h"
#include "runtime/chat/Object.h"

#include <map>
#include <memory>

namespace moert::chat {

/// The variables of one block. A macro is evaluated inside the scope that defines it, so such a
/// scope lives until the end of the rendering.
struct Scope {
  Scope *parent = nullptr;
  std::map<std::string, Value, std::less<>> variables = {};
  bool isCaptured = false;
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
  Result<Value> call(const Value &callee, const Arguments &arguments);
  Result<Value> callMacro(const MacroDefinition &macro, Scope &definedIn,
                          const Arguments &arguments);
  /// The text of a recursive loop over other elements.
  Result<Value> repeatLoop(const For &loop, Scope &definedIn, const Value &iterable,
                           uint32_t depth);
  /// Keeps an object that may come to refer to itself, until the end of the rendering.
  void keep(ObjectPtr object) { keptObjects.push_back(std::move(object)); }

private:
  // Expressions: EvaluateExpression.cpp.
  Result<Value> evaluate(const Expression &expression);
  Result<Value> evaluateNode(const Literal &literal) { return literal.value; }
  Result<Value> evaluateNode(const Name &name);
  Result<Value> evaluateNode(const ListLiteral &list);
  Result<Value> evaluateNode(const DictLiteral &dict);
  Result<Value> evaluateNode(const Unary &unary);
  Result<Value> evaluateNode(const Binary &binary);
  Result<Value> evaluateNode(const Logical &logical);
  Result<Value> evaluateNode(const Comparison &comparison);
  Result<Value> evaluateNode(const Concatenation &concatenation);
  Result<Value> evaluateNode(const Conditional &conditional);
  Result<Value> evaluateNode(const Attribute &attribute);
  Result<Value> evaluateNode(const Subscript &subscript);
  Result<Value> evaluateNode(const Slice &slice);
  Result<Value> evaluateNode(const CallExpression &expression);
  Result<Value> evaluateNode(const FilterExpression &filter);
  Result<Value> evaluateNode(const TestExpression &test);
  Result<Arguments> evaluateArguments(const CallArguments &arguments);
  Result<Value> applyFilters(const std::vector<FilterStep> &filters, Value value);

  // Statements: EvaluateStatement.cpp.
  Result<Flow> execute(const Body &body);
  Result<Flow> execute(const Statement &statement);
  Result<Flow> executeNode(const TextOutput &output);
  Result<Flow> executeNode(const Print &print);
  Result<Flow> executeNode(const For &loop);
  Result<Flow> executeNode(const If &statement);
  Result<Flow> executeNode(const Set &set);
  Result<Flow> executeNode(const SetBlock &set);
  Result<Flow> executeNode(const MacroStatement &statement);
  Result<Flow> executeNode(const CallStatement &statement);
  Result<Flow> executeNode(const FilterBlock &block);
  Result<Flow> executeNode(const With &with);
  Result<Flow> executeNode(const Generation &generation);
  Result<Flow> executeNode(const Break &) { return Flow::kBreak; }
  Result<Flow> executeNode(const Continue &) { return Flow::kContinue; }
  Result<Flow> executeInScope(const Body &body);
  /// Runs the body in a scope of its own, with its output going to `text`.
  Result<Flow> capture(const Body &body, std::string &text);
  Status executeLoop(const For &loop, const Value &iterable, uint32_t loopDepth);
  Result<bool> isSelected(const For &loop, const Value &item);
  Result<SequencePtr> selectItems(const For &loop, SequencePtr items);
  Status bindParameters(const MacroDefinition &macro, const Arguments &arguments);
  /// Binds `caller`, `kwargs` and `varargs`; fails if there are arguments that the macro does not
  /// take.
  Status bindSpecialNames(const MacroDefinition &macro, const Arguments &arguments,
                          std::vector<std::pair<std::string, Value>> &named);
  Status assign(const Target &target, const Value &value);
  Status assignParts(const std::vector<Target> &targets, const Value &value);
  Status write(std::string_view text);

  // Scopes.
  class Block; // A scope while it is the current one.
  Value makeMacro(const MacroDefinition &definition);
  Scope &captureScope();
  void setVariable(const std::string &name, Value value);

  const Dict &context;
  Scope *scope = nullptr;
  std::vector<std::unique_ptr<Scope>> keptScopes;
  std::vector<ObjectPtr> keptObjects;
  std::string *out = nullptr;
  uint32_t depth = 0;
  uint32_t line = 0;
};

} // namespace moert::chat
