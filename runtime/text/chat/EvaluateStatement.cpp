// The statements of a template, and its scopes; declared in Evaluator.h.
#include "runtime/base/Excerpt.h"
#include "runtime/text/chat/Builtins.h"
#include "runtime/text/chat/Evaluator.h"

#include <utility>

namespace moert::chat {

/// A scope while it is the current one.
class Evaluator::Block {
public:
  Block(Evaluator &renderingEvaluator, Scope *parent)
      : evaluator(renderingEvaluator), outer(evaluator.scope), own{parent} {
    evaluator.scope = &own;
  }
  ~Block() { evaluator.scope = outer; }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;

private:
  Evaluator &evaluator;
  Scope *const outer;
  Scope own;
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
  topScope = scope;
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

Status Evaluator::enter(uint32_t newLine) {
  line = newLine;
  MOERT_RETURN_IF_ERROR(allowance.spend(1));
  return ++depth > allowance.limits.depth
             ? invalidInput("statements and expressions are nested deeper than ",
                            allowance.limits.depth, " levels")
             : Status();
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
  MOERT_RETURN_IF_ERROR(enter(statement.line));
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
  MOERT_ASSIGN_OR_RETURN(const Value shown, toText(value, allowance));
  MOERT_RETURN_IF_ERROR(write(shown.text()));
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
  MOERT_RETURN_IF_ERROR(capture(set.body, text).status());
  MOERT_RETURN_IF_ERROR(assign(set.target, Value::ofText(std::move(text))));
  return Flow::kNext;
}

Result<Flow> Evaluator::executeNode(const Generation &generation) {
  return executeInScope(generation.body);
}

// Loops ------------------------------------------------------------------------------------------

Result<Flow> Evaluator::executeNode(const For &loop) {
  MOERT_ASSIGN_OR_RETURN(const Value iterable, evaluate(*loop.iterable));
  MOERT_RETURN_IF_ERROR(executeLoop(loop, iterable));
  return Flow::kNext;
}

Result<bool> Evaluator::isSelected(const For &loop, const Value &item) {
  const Block block(*this, scope);
  MOERT_RETURN_IF_ERROR(assign(loop.target, item));
  MOERT_ASSIGN_OR_RETURN(const Value value, evaluate(*loop.condition));
  return value.isTrue();
}

// Without `loop` in its body, the condition of an element is evaluated right before its iteration,
// so that it sees what earlier iterations changed. `loop.length` and others need all conditions.
Status Evaluator::executeLoop(const For &loop, const Value &iterable) {
  MOERT_ASSIGN_OR_RETURN(SequencePtr items, iterate(iterable, allowance));
  const bool selectsFirst = loop.condition && loop.usesLoop;
  if (selectsFirst) {
    auto selected = std::make_shared<Sequence>();
    selected->depth = items->depth;
    for (const Value &item : items->items) {
      MOERT_ASSIGN_OR_RETURN(const bool isWanted, isSelected(loop, item));
      if (isWanted)
        selected->items.push_back(item);
    }
    items = std::move(selected);
  }
  std::shared_ptr<Loop> variable;
  if (loop.usesLoop)
    variable = std::make_shared<Loop>(items);
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

// Macros -----------------------------------------------------------------------------------------

Result<Flow> Evaluator::executeNode(const MacroDefinition &macro) {
  setVariable(macro.name, Value(ObjectPtr(std::make_shared<Macro>(macro))));
  return Flow::kNext;
}

Result<Value> Evaluator::callMacro(const MacroDefinition &macro, const Arguments &arguments) {
  MOERT_RETURN_IF_ERROR(allowance.spend(8));
  const uint32_t callLine = line;
  std::string text;
  const Block block(*this, topScope);
  MOERT_RETURN_IF_ERROR(bindParameters(macro, arguments));
  MOERT_RETURN_IF_ERROR(capture(macro.body, text).status());
  line = callLine;
  return Value::ofText(std::move(text));
}

Status Evaluator::bindParameters(const MacroDefinition &macro, const Arguments &arguments) {
  const std::vector<std::string> &parameters = macro.parameters;
  const size_t given = arguments.positional.size();
  if (given > parameters.size())
    return invalidInput("macro '", excerpt(macro.name), "' takes not more than ", parameters.size(),
                        " argument(s); 'varargs' is not supported");
  std::multimap<std::string, Value> named(arguments.named.begin(), arguments.named.end());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string &name = parameters[i];
    const size_t required = parameters.size() - macro.defaults.size();
    const auto found = i < given ? named.end() : named.find(name);
    Value value = Value::undefined(strCat("parameter '", name, "' was not provided"));
    if (i < given) {
      value = arguments.positional[i];
    } else if (found != named.end()) {
      value = found->second;
      named.erase(found);
    } else if (i >= required) {
      MOERT_ASSIGN_OR_RETURN(value, evaluate(*macro.defaults[i - required]));
    }
    setVariable(name, std::move(value));
  }
  if (!named.empty())
    return invalidInput("macro '", excerpt(macro.name), "' takes no keyword argument '",
                        excerpt(named.begin()->first), "'; 'kwargs' is not supported");
  return {};
}

// Assignments ------------------------------------------------------------------------------------

void Evaluator::setVariable(const std::string &name, Value value) {
  scope->variables.insert_or_assign(name, std::move(value));
}

Status Evaluator::assign(const Target &target, const Value &value) {
  if (!target.member.empty()) {
    MOERT_ASSIGN_OR_RETURN(const Value object, lookUp(target.names[0]));
    auto *space =
        object.kind() == Kind::kObject ? dynamic_cast<Namespace *>(object.object().get()) : nullptr;
    if (!space)
      return invalidInput("cannot assign attribute on non-namespace object");
    MOERT_RETURN_IF_ERROR(allowance.spend(4));
    space->members.set(textKey(target.member), Value::ofText(target.member), value);
    return {};
  }
  if (!target.isTuple) {
    setVariable(target.names[0], value);
    return {};
  }
  MOERT_RETURN_IF_ERROR(requireDefined(value));
  MOERT_ASSIGN_OR_RETURN(const SequencePtr parts, iterate(value, allowance));
  if (parts->items.size() != target.names.size())
    return invalidInput("found ", parts->items.size(), " values to unpack, expected ",
                        target.names.size());
  for (size_t i = 0; i < target.names.size(); ++i)
    setVariable(target.names[i], parts->items[i]);
  return {};
}

} // namespace moert::chat
