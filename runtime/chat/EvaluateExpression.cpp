// The expressions of a template; declared in Evaluator.h.
#include "runtime/base/Excerpt.h"
#include "runtime/chat/Builtins.h"
#include "runtime/chat/Evaluator.h"

#include <algorithm>

namespace moert::chat {

Result<Value> Evaluator::evaluate(const Expression &expression) {
  const uint32_t outerLine = line;
  line = expression.line;
  MOERT_RETURN_IF_ERROR(allowance.spend(1));
  if (++depth > allowance.limits.depth)
    return invalidInput("statements and expressions are nested deeper than ",
                        allowance.limits.depth, " levels");
  Result<Value> value = std::visit(
      [&](const auto &node) { return evaluateNode(node, expression.children); }, expression.node);
  --depth;
  if (value.isOk())
    line = outerLine;
  return value;
}

Result<std::vector<Value>> Evaluator::evaluateAll(std::span<const ExpressionPtr> expressions) {
  std::vector<Value> values;
  for (const ExpressionPtr &expression : expressions) {
    MOERT_ASSIGN_OR_RETURN(Value value, evaluate(*expression));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Value> Evaluator::lookUp(const std::string &name) {
  static constexpr std::string_view kUnsupported[] = {"cycler", "dict", "joiner", "lipsum"};
  for (const Scope *place = scope; place; place = place->parent) {
    auto found = place->variables.find(name);
    if (found != place->variables.end())
      return found->second;
  }
  if (const Value *value = context.findText(name))
    return *value;
  if (const Builtin *global = findGlobal(name))
    return allowance.object(std::make_shared<BoundBuiltin>(*global, Value()));
  if (std::find(std::begin(kUnsupported), std::end(kUnsupported), name) != std::end(kUnsupported))
    return notSupported("'", name, "'");
  return Value::undefined(strCat("'", name, "' is undefined"));
}

Result<Value> Evaluator::evaluateNode(const Name &name, const Expressions &) {
  return lookUp(name.name);
}

Result<Value> Evaluator::evaluateNode(const UnsupportedName &name, const Expressions &) {
  return notSupported("'", name.name, "'");
}

Result<Value> Evaluator::evaluateNode(const ListLiteral &list, const Expressions &items) {
  MOERT_ASSIGN_OR_RETURN(std::vector<Value> values, evaluateAll(items));
  return allowance.sequence(list.kind, std::move(values));
}

Result<Value> Evaluator::evaluateNode(const DictLiteral &, const Expressions &entries) {
  MOERT_ASSIGN_OR_RETURN(std::vector<Value> values, evaluateAll(entries));
  Dict dict;
  for (size_t i = 0; i < values.size(); i += 2) {
    MOERT_ASSIGN_OR_RETURN(std::string key, hashKey(values[i], allowance));
    dict.set(std::move(key), std::move(values[i]), std::move(values[i + 1]));
  }
  return allowance.dict(std::move(dict));
}

Result<Value> Evaluator::evaluateNode(const Operation &operation, const Expressions &operands) {
  MOERT_ASSIGN_OR_RETURN(const Value left, evaluate(*operands[0]));
  switch (operation.op) {
  case Operator::kOr:
  case Operator::kAnd:
    return left.isTrue() == (operation.op == Operator::kAnd) ? evaluate(*operands[1])
                                                             : Result<Value>(left);
  case Operator::kNot:
    return Value(!left.isTrue());
  case Operator::kMinus:
    return negate(left);
  case Operator::kPlus: {
    MOERT_ASSIGN_OR_RETURN(const Value negated, negate(left));
    return negate(negated);
  }
  default:
    break;
  }
  MOERT_ASSIGN_OR_RETURN(const Value right, evaluate(*operands[1]));
  return applyBinary(operation.op, left, right, allowance);
}

Result<Value> Evaluator::evaluateNode(const Conditional &, const Expressions &children) {
  MOERT_ASSIGN_OR_RETURN(const Value test, evaluate(*children[0]));
  if (test.isTrue())
    return evaluate(*children[1]);
  if (children[2])
    return evaluate(*children[2]);
  return Value::undefined("the inline if-expression evaluated to false and no else section was "
                          "defined");
}

Result<Value> Evaluator::evaluateNode(const Attribute &attribute, const Expressions &children) {
  MOERT_ASSIGN_OR_RETURN(const Value object, evaluate(*children[0]));
  return member(object, attribute.name);
}

Result<Value> Evaluator::evaluateNode(const Subscript &, const Expressions &children) {
  MOERT_ASSIGN_OR_RETURN(const Value object, evaluate(*children[0]));
  MOERT_ASSIGN_OR_RETURN(const Value index, evaluate(*children[1]));
  return element(object, index);
}

Result<Value> Evaluator::evaluateNode(const CallExpression &call, const Expressions &children) {
  MOERT_ASSIGN_OR_RETURN(const Value callee, evaluate(*children[0]));
  MOERT_ASSIGN_OR_RETURN(const Arguments arguments,
                         evaluateArguments(children, call.argumentNames));
  MOERT_RETURN_IF_ERROR(requireDefined(callee));
  if (callee.kind() != Kind::kObject)
    return invalidInput("'", callee.typeName(), "' object is not callable");
  return callee.object()->call(arguments, *this);
}

Result<Value> Evaluator::evaluateNode(const BuiltinExpression &node, const Expressions &children) {
  if (!node.builtin)
    return notSupported("the ", node.kind, " '", excerpt(node.name), "'");
  MOERT_ASSIGN_OR_RETURN(const Value input, evaluate(*children[0]));
  MOERT_ASSIGN_OR_RETURN(const Arguments arguments,
                         evaluateArguments(children, node.argumentNames));
  return callBuiltin(*node.builtin, input, arguments, *this);
}

Result<Arguments> Evaluator::evaluateArguments(const Expressions &children,
                                               const std::vector<std::string> &names) {
  Arguments arguments;
  const auto given = std::span(children).subspan(1);
  MOERT_ASSIGN_OR_RETURN(arguments.positional,
                         evaluateAll(given.first(given.size() - names.size())));
  MOERT_ASSIGN_OR_RETURN(std::vector<Value> named, evaluateAll(given.last(names.size())));
  for (size_t i = 0; i < names.size(); ++i)
    arguments.named.emplace_back(names[i], std::move(named[i]));
  return arguments;
}

} // namespace moert::chat
