// The statements of a template, and its scopes; declared in Evaluator.h.
#include "runtime/base/Excerpt.h"
#include "runtime/chat/Builtins.h"
#include "runtime/chat/Evaluator.h"
#include "runtime/chat/Loop.h"
#include "runtime/chat/Macro.h"
#include "runtime/chat/Printing.h"

#include <algorithm>
#include <utility>

namespace moert::chat {

/// A scope while it is the current one. Afterwards it is kept if a macro needs it.
class Evaluator::Block {
public:
  Block(Evaluator &renderingEvaluator, Scope *parent)
      : evaluator(renderingEvaluator), outer(evaluator.scope), own(std::make_unique<Scope>()) {
    own->parent = parent;
    evaluator.scope = own.get();
  }
  ~Block() {
    evaluator.scope = outer;
    if (own->isCaptured)
      evaluator.keptScopes.push_back(std::move(own));
  }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

private:
  Evaluator &evaluator;
  Scope *const outer;
  std::unique_ptr<Scope> own;
};

Evaluator::Evaluator(const Dict &contextVariables, const TemplateLimits &limits,
                     LocalClock localClock)
    : allowance(limits), clock(localClock), context(contextVariables) {}

// A namespace may hold itself, directly or through other values.
Evaluator::~Evaluator() {
  for (const ObjectPtr &object : keptObjects)
    object->clear();
}

Result<std::string> Evaluator::run(const Body &body) {
  std::string text;
  out = &text;
  const Block block(*this, nullptr);
  Result<Flow> flow = execute(body);
  out = nullptr;
  return flow.isOk() ? Result<std::string>(std::move(text)) : Result<std::string>(flow.status());
}

Status Evaluator::write(std::string_view text) {
  if (text.size() > allowance.limits.outputBytes ||
      out->size() > allowance.limits.outputBytes - text.size())
    return invalidInput("the rendering has more than ", allowance.limits.outputBytes,
                        " bytes of output");
  MOERT_RETURN_IF_ERROR(allowance.spendBytes(text.size()));
  out->append(text);
  return {};
}

Result<Flow> Evaluator::execute(const Body &body) {
  for (const Statement &statement : body) {
    MOERT_ASSIGN_OR_RETURN(const Flow flow, execute(statement));
    if (flow != Flow::kNext)
      return flow;
  }
  return Flow::kNext;
}

Result<Flow> Evaluator::execute(const Statement &statement) {
  line = statement.line;
  MOERT_RETURN_IF_ERROR(allowance.spend(1));
  if (++depth > allowance.limits.depth)
    return invalidInput("statements and expressions are nested deeper than ",
                        allowance.limits.depth, " levels");
  Result<Flow> flow =
      std::visit([this](const auto &node) { return executeNode(node); }, statement.node);
  --depth;
  return flow;
}

Result<Flow> Evaluator::executeInScope(const Body &body) {
  const Block block(*this, scope);
  return execute(body);
}

Result<Flow> Evaluator::capture(const Body &body, std::string &text) {
  std::string *const outer = std::exchange(out, &text);
  Result<Flow> flow = executeInScope(body);
  out = outer;
  return flow;
}

Result<Flow> Evaluator::executeNode(const TextOutput &output) {
  MOERT_RETURN_IF_ERROR(write(output.text));
  return Flow::kNext;
}

Result<Flow> Evaluator::executeNode(const Print &print) {
  MOERT_ASSIGN_OR_RETURN(const Value value, evaluate(*print.value));
  TextBuilder shown(allowance);
  if (!value.isText())
    MOERT_RETURN_IF_ERROR(appendText(value, shown));
  MOERT_RETURN_IF_ERROR(write(value.isText() ? value.text() : std::move(shown).finish().text()));
  return Flow::kNext;
}

Result<Flow> Evaluator::executeNode(const If &statement) {
  for (const auto &[test, body] : statement.branches) {
    MOERT_ASSIGN_OR_RETURN(const Value value, evaluate(*test));
    if (value.isTrue())
      return execute(body);
  }
  return execute(statement.otherwise);
}

Result<Flow> Evaluator::executeNode(const Set &set) {
  MOERT_ASSIGN_OR_RETURN(const Value value, evaluate(*set.value));
  MOERT_RETURN_IF_ERROR(assign(set.target, value));
  return Flow::kNext;
}

Result<Flow> Evaluator::executeNode(const SetBlock &set) {
  std::string text;
  MOERT_ASSIGN_OR_RETURN(const Flow flow, capture(set.body, text));
  if (flow != Flow::kNext)
    return flow;
  MOERT_ASSIGN_OR_RETURN(const Value value,
                         applyFilters(set.filters, Value::ofText(std::move(text))));
  MOERT_RETURN_IF_ERROR(assign(set.target, value));
  return Flow::kNext;
}

Result<Flow> Evaluator::executeNode(const FilterBlock &block) {
  std::string text;
  MOERT_ASSIGN_OR_RETURN(const Flow flow, capture(block.body, text));
  if (flow != Flow::kNext)
    return flow;
  MOERT_ASSIGN_OR_RETURN(const Value value,
                         applyFilters(block.filters, Value::ofText(std::move(text))));
  MOERT_ASSIGN_OR_RETURN(const Value shown, toText(value, allowance));
  MOERT_RETURN_IF_ERROR(write(shown.text()));
  return Flow::kNext;
}

Result<Flow> Evaluator::executeNode(const With &with) {
  std::vector<Value> values;
  for (const auto &[target, expression] : with.assignments) {
    MOERT_ASSIGN_OR_RETURN(Value value, evaluate(*expression));
    values.push_back(std::move(value));
  }
  const Block block(*this, scope);
  for (size_t i = 0; i < values.size(); ++i)
    MOERT_RETURN_IF_ERROR(assign(with.assignments[i].first, values[i]));
  return execute(with.body);
}

Result<Flow> Evaluator::executeNode(const Generation &generation) {
  return executeInScope(generation.body);
}

// Loops ------------------------------------------------------------------------------------------

Result<Flow> Evaluator::executeNode(const For &loop) {
  MOERT_ASSIGN_OR_RETURN(const Value iterable, evaluate(*loop.iterable));
  MOERT_RETURN_IF_ERROR(executeLoop(loop, iterable, 0));
  return Flow::kNext;
}

Result<bool> Evaluator::isSelected(const For &loop, const Value &item) {
  const Block block(*this, scope);
  MOERT_RETURN_IF_ERROR(assign(loop.target, item));
  MOERT_ASSIGN_OR_RETURN(const Value value, evaluate(*loop.condition));
  return value.isTrue();
}

Result<SequencePtr> Evaluator::selectItems(const For &loop, SequencePtr items) {
  auto selected = std::make_shared<Sequence>();
  selected->depth = items->depth;
  for (const Value &item : items->items) {
    MOERT_ASSIGN_OR_RETURN(const bool isWanted, isSelected(loop, item));
    if (isWanted)
      selected->items.push_back(item);
  }
  return SequencePtr(std::move(selected));
}

// Without `loop` in its body, the condition of an element is evaluated right before its iteration,
// so that it sees what earlier iterations changed. `loop.length` and others need all conditions.
Status Evaluator::executeLoop(const For &loop, const Value &iterable, uint32_t loopDepth) {
  MOERT_ASSIGN_OR_RETURN(SequencePtr items, iterate(iterable, allowance));
  const bool selectsFirst = loop.condition && loop.usesLoop;
  if (selectsFirst) {
    MOERT_ASSIGN_OR_RETURN(items, selectItems(loop, std::move(items)));
  }
  std::shared_ptr<Loop> variable;
  if (loop.usesLoop)
    variable = std::make_shared<Loop>(items, loopDepth, loop.isRecursive ? &loop : nullptr,
                                      loop.isRecursive ? captureScope() : *scope);
  bool hasIterated = false;
  for (size_t i = 0; i < items->items.size(); ++i) {
    MOERT_RETURN_IF_ERROR(allowance.spend(2));
    if (loop.condition && !selectsFirst) {
      MOERT_ASSIGN_OR_RETURN(const bool isWanted, isSelected(loop, items->items[i]));
      if (!isWanted)
        continue;
    }
    hasIterated = true;
    const Block block(*this, scope);
    if (variable) {
      variable->index = i;
      MOERT_ASSIGN_OR_RETURN(Value loopValue, allowance.object(variable));
      setVariable("loop", std::move(loopValue));
    }
    MOERT_RETURN_IF_ERROR(assign(loop.target, items->items[i]));
    MOERT_ASSIGN_OR_RETURN(const Flow flow, execute(loop.body));
    if (flow == Flow::kBreak)
      break;
  }
  if (hasIterated || loop.otherwise.empty())
    return {};
  return executeInScope(loop.otherwise).status();
}

Result<Value> Evaluator::repeatLoop(const For &loop, Scope &definedIn, const Value &iterable,
                                    uint32_t loopDepth) {
  std::string text;
  std::string *const outer = std::exchange(out, &text);
  Scope *const outerScope = std::exchange(scope, &definedIn);
  const Status status = executeLoop(loop, iterable, loopDepth);
  scope = outerScope;
  out = outer;
  return status.isOk() ? Result<Value>(Value::ofText(std::move(text))) : Result<Value>(status);
}

// Macros -----------------------------------------------------------------------------------------

Scope &Evaluator::captureScope() {
  for (Scope *captured = scope; captured && !captured->isCaptured; captured = captured->parent)
    captured->isCaptured = true;
  return *scope;
}

Value Evaluator::makeMacro(const MacroDefinition &definition) {
  return Value(ObjectPtr(std::make_shared<Macro>(definition, captureScope())));
}

Result<Flow> Evaluator::executeNode(const MacroStatement &statement) {
  setVariable(statement.macro.name, makeMacro(statement.macro));
  return Flow::kNext;
}

Result<Flow> Evaluator::executeNode(const CallStatement &statement) {
  const CallExpression &expression = std::get<CallExpression>(statement.call->node);
  MOERT_RETURN_IF_ERROR(allowance.spend(8)); // The scope is kept.
  MOERT_ASSIGN_OR_RETURN(const Value callee, evaluate(*expression.callee));
  MOERT_ASSIGN_OR_RETURN(Arguments arguments, evaluateArguments(expression.arguments));
  arguments.named.emplace_back("caller", makeMacro(statement.caller));
  MOERT_ASSIGN_OR_RETURN(const Value result, call(callee, arguments));
  MOERT_ASSIGN_OR_RETURN(const Value shown, toText(result, allowance));
  MOERT_RETURN_IF_ERROR(write(shown.text()));
  return Flow::kNext;
}

Result<Value> Evaluator::callMacro(const MacroDefinition &macro, Scope &definedIn,
                                   const Arguments &arguments) {
  MOERT_RETURN_IF_ERROR(allowance.spend(8));
  const uint32_t callLine = line;
  std::string text;
  const Block block(*this, &definedIn);
  MOERT_RETURN_IF_ERROR(bindParameters(macro, arguments));
  std::string *const outer = std::exchange(out, &text);
  const Result<Flow> flow = execute(macro.body);
  out = outer;
  MOERT_RETURN_IF_ERROR(flow.status());
  line = callLine;
  return Value::ofText(std::move(text));
}

/// Takes the argument of that name out of `named`, if it is there.
static std::optional<Value> takeNamed(std::vector<std::pair<std::string, Value>> &named,
                                      std::string_view name) {
  auto found = std::find_if(named.begin(), named.end(),
                            [&](const auto &argument) { return argument.first == name; });
  if (found == named.end())
    return std::nullopt;
  Value value = std::move(found->second);
  named.erase(found);
  return value;
}

Status Evaluator::bindParameters(const MacroDefinition &macro, const Arguments &arguments) {
  const size_t count = macro.parameters.size();
  const size_t firstDefault = count - macro.defaults.size();
  std::vector<std::pair<std::string, Value>> named = arguments.named;
  for (size_t i = 0; i < count; ++i) {
    const std::string &name = macro.parameters[i];
    std::optional<Value> value =
        i < arguments.positional.size() ? arguments.positional[i] : takeNamed(named, name);
    if (!value && i >= firstDefault) {
      MOERT_ASSIGN_OR_RETURN(value, evaluate(*macro.defaults[i - firstDefault]));
    }
    setVariable(name, value ? *value
                            : Value::undefined(strCat("parameter '", name, "' was not provided")));
  }
  return bindSpecialNames(macro, arguments, named);
}

Status Evaluator::bindSpecialNames(const MacroDefinition &macro, const Arguments &arguments,
                                   std::vector<std::pair<std::string, Value>> &named) {
  const std::vector<std::string> &parameters = macro.parameters;
  const bool hasOwnCaller =
      std::find(parameters.begin(), parameters.end(), "caller") != parameters.end();
  if (macro.usesCaller && !hasOwnCaller)
    setVariable("caller",
                takeNamed(named, "caller").value_or(Value::undefined("No caller defined")));
  if (macro.usesExtraNamed) {
    Dict extra;
    for (auto &[name, value] : named)
      extra.set(textKey(name), Value::ofText(name), std::move(value));
    MOERT_ASSIGN_OR_RETURN(Value names, allowance.dict(std::move(extra)));
    setVariable("kwargs", std::move(names));
  } else if (!named.empty()) {
    return invalidInput("macro '", excerpt(macro.name), "' takes no keyword argument '",
                        excerpt(named[0].first), "'");
  }
  if (!macro.usesExtraPositional && arguments.positional.size() > parameters.size())
    return invalidInput("macro '", excerpt(macro.name), "' takes not more than ", parameters.size(),
                        " argument(s)");
  if (macro.usesExtraPositional) {
    const size_t used = std::min(parameters.size(), arguments.positional.size());
    std::vector<Value> extra(arguments.positional.begin() + static_cast<ptrdiff_t>(used),
                             arguments.positional.end());
    MOERT_ASSIGN_OR_RETURN(Value values,
                           allowance.sequence(SequenceKind::kTuple, std::move(extra)));
    setVariable("varargs", std::move(values));
  }
  return {};
}

// Assignments ------------------------------------------------------------------------------------

void Evaluator::setVariable(const std::string &name, Value value) {
  scope->variables.insert_or_assign(name, std::move(value));
}

Status Evaluator::assign(const Target &target, const Value &value) {
  if (!target.parts.empty())
    return assignParts(target.parts, value);
  if (target.member.empty()) {
    setVariable(target.name, value);
    return {};
  }
  MOERT_ASSIGN_OR_RETURN(const Value object, evaluateNode(Name{target.name}));
  auto *space =
      object.kind() == Kind::kObject ? dynamic_cast<Namespace *>(object.object().get()) : nullptr;
  if (!space)
    return invalidInput("cannot assign attribute on non-namespace object");
  MOERT_RETURN_IF_ERROR(allowance.spend(4));
  space->members.set(textKey(target.member), Value::ofText(target.member), value);
  return {};
}

Status Evaluator::assignParts(const std::vector<Target> &targets, const Value &value) {
  MOERT_RETURN_IF_ERROR(requireDefined(value));
  MOERT_ASSIGN_OR_RETURN(const SequencePtr parts, iterate(value, allowance));
  if (parts->items.size() != targets.size())
    return invalidInput("found ", parts->items.size(), " values to unpack, expected ",
                        targets.size());
  for (size_t i = 0; i < targets.size(); ++i)
    MOERT_RETURN_IF_ERROR(assign(targets[i], parts->items[i]));
  return {};
}

} // namespace moert::chat
