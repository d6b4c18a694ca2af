// The expressions of a template; declared in Evaluator.h.
#include "runtime/base/Excerpt.h"
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/Builtins.h"
#include "runtime/chat/Evaluator.h"
#include "runtime/chat/Printing.h"

namespace moert::chat {

Result<Value> Evaluator::evaluate(const Expression &expression) {
  const uint32_t outerLine = line;
  line = expression.line;
  MOERT_RETURN_IF_ERROR(allowance.spend(1));
  if (++depth > allowance.limits.depth)
    return invalidInput("statements and expressions are nested deeper than ",
                        allowance.limits.depth, " levels");
  Result<Value> value =
      std::visit([this](const auto &node) { return evaluateNode(node); }, expression.node);
  --depth;
  if (value.isOk())
    line = outerLine;
  return value;
}

Result<Value> Evaluator::evaluateNode(const Name &name) {
  for (const Scope *place = scope; place; place = place->parent) {
    auto found = place->variables.find(name.name);
    if (found != place->variables.end())
      return found->second;
  }
  if (const Value *value = context.findText(name.name))
    return *value;
  if (const Builtin *global = findGlobal(name.name))
    return allowance.object(std::make_shared<BoundBuiltin>(*global, Value()));
  return Value::undefined(strCat("'", name.name, "' is undefined"));
}

Result<Value> Evaluator::evaluateNode(const ListLiteral &list) {
  std::vector<Value> items;
  for (const ExpressionPtr &item : list.items) {
    MOERT_ASSIGN_OR_RETURN(Value value, evaluate(*item));
    items.push_back(std::move(value));
  }
  return allowance.sequence(list.kind, std::move(items));
}

Result<Value> Evaluator::evaluateNode(const DictLiteral &literal) {
  Dict dict;
  for (const auto &[nameExpression, valueExpression] : literal.entries) {
    MOERT_ASSIGN_OR_RETURN(Value name, evaluate(*nameExpression));
    MOERT_ASSIGN_OR_RETURN(Value value, evaluate(*valueExpression));
    MOERT_ASSIGN_OR_RETURN(std::string key, hashKey(name, allowance));
    dict.set(std::move(key), std::move(name), std::move(value));
  }
  return allowance.dict(std::move(dict));
}

Result<Value> Evaluator::evaluateNode(const Unary &unary) {
  MOERT_ASSIGN_OR_RETURN(const Value operand, evaluate(*unary.operand));
  if (unary.op == UnaryOperator::kNot)
    return Value(!operand.isTrue());
  MOERT_ASSIGN_OR_RETURN(const Value negated, negate(operand));
  return unary.op == UnaryOperator::kMinus ? Result<Value>(negated) : negate(negated);
}

Result<Value> Evaluator::evaluateNode(const Binary &binary) {
  MOERT_ASSIGN_OR_RETURN(const Value left, evaluate(*binary.left));
  MOERT_ASSIGN_OR_RETURN(const Value right, evaluate(*binary.right));
  return applyBinary(binary.op, left, right, allowance);
}

Result<Value> Evaluator::evaluateNode(const Logical &logical) {
  MOERT_ASSIGN_OR_RETURN(Value left, evaluate(*logical.left));
  return left.isTrue() == logical.isAnd ? evaluate(*logical.right) : Result<Value>(std::move(left));
}

Result<Value> Evaluator::evaluateNode(const Comparison &comparison) {
  MOERT_ASSIGN_OR_RETURN(Value left, evaluate(*comparison.first));
  for (const auto &[op, expression] : comparison.rest) {
    MOERT_ASSIGN_OR_RETURN(Value right, evaluate(*expression));
    MOERT_ASSIGN_OR_RETURN(const bool holds, compare(op, left, right, allowance));
    if (!holds)
      return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Evaluator::evaluateNode(const Concatenation &concatenation) {
  TextBuilder text(allowance);
  for (const ExpressionPtr &part : concatenation.parts) {
    MOERT_ASSIGN_OR_RETURN(const Value value, evaluate(*part));
    MOERT_RETURN_IF_ERROR(appendText(value, text));
  }
  return std::move(text).finish();
}

Result<Value> Evaluator::evaluateNode(const Conditional &conditional) {
  MOERT_ASSIGN_OR_RETURN(const Value test, evaluate(*conditional.test));
  if (test.isTrue())
    return evaluate(*conditional.then);
  if (conditional.otherwise)
    return evaluate(*conditional.otherwise);
  return Value::undefined("the inline if-expression evaluated to false and no else section was "
                          "defined");
}

Result<Value> Evaluator::evaluateNode(const Attribute &attribute) {
  MOERT_ASSIGN_OR_RETURN(const Value object, evaluate(*attribute.object));
  return member(object, attribute.name);
}

Result<Value> Evaluator::evaluateNode(const Subscript &subscript) {
  MOERT_ASSIGN_OR_RETURN(const Value object, evaluate(*subscript.object));
  MOERT_ASSIGN_OR_RETURN(const Value index, evaluate(*subscript.index));
  return element(object, index);
}

Result<Value> Evaluator::evaluateNode(const CallExpression &expression) {
  MOERT_ASSIGN_OR_RETURN(const Value callee, evaluate(*expression.callee));
  MOERT_ASSIGN_OR_RETURN(const Arguments arguments, evaluateArguments(expression.arguments));
  return call(callee, arguments);
}

static Status unknown(const char *kind, const std::string &name) {
  return invalidInput("the ", kind, " '", excerpt(name), "' is not supported");
}

Result<Value> Evaluator::evaluateNode(const FilterExpression &filter) {
  if (!filter.step.filter)
    return unknown("filter", filter.step.unknownName);
  MOERT_ASSIGN_OR_RETURN(const Value input, evaluate(*filter.input));
  MOERT_ASSIGN_OR_RETURN(const Arguments arguments, evaluateArguments(filter.step.arguments));
  return callBuiltin(*filter.step.filter, input, arguments, *this);
}

Result<Value> Evaluator::evaluateNode(const TestExpression &test) {
  if (!test.test)
    return unknown("test", test.unknownName);
  MOERT_ASSIGN_OR_RETURN(const Value input, evaluate(*test.input));
  MOERT_ASSIGN_OR_RETURN(const Arguments arguments, evaluateArguments(test.arguments));
  return callBuiltin(*test.test, input, arguments, *this);
}

Result<Value> Evaluator::applyFilters(const std::vector<FilterStep> &filters, Value value) {
  for (const FilterStep &step : filters) {
    if (!step.filter)
      return unknown("filter", step.unknownName);
    MOERT_ASSIGN_OR_RETURN(const Arguments arguments, evaluateArguments(step.arguments));
    MOERT_ASSIGN_OR_RETURN(value, callBuiltin(*step.filter, value, arguments, *this));
  }
  return value;
}

Result<Arguments> Evaluator::evaluateArguments(const CallArguments &arguments) {
  Arguments values;
  for (const ExpressionPtr &expression : arguments.positional) {
    MOERT_ASSIGN_OR_RETURN(Value value, evaluate(*expression));
    values.positional.push_back(std::move(value));
  }
  for (const auto &[name, expression] : arguments.named) {
    MOERT_ASSIGN_OR_RETURN(Value value, evaluate(*expression));
    values.named.emplace_back(name, std::move(value));
  }
  if (arguments.unpackedList) {
    MOERT_ASSIGN_OR_RETURN(const Value list, evaluate(*arguments.unpackedList));
    MOERT_ASSIGN_OR_RETURN(const SequencePtr items, iterate(list, allowance));
    MOERT_RETURN_IF_ERROR(allowance.spend(items->items.size()));
    values.positional.insert(values.positional.end(), items->items.begin(), items->items.end());
  }
  if (arguments.unpackedDict) {
    MOERT_ASSIGN_OR_RETURN(const Value dict, evaluate(*arguments.unpackedDict));
    if (!dict.isDict())
      return invalidInput("found a value of type ", dict.typeName(),
                          " after **, expected a mapping");
    MOERT_RETURN_IF_ERROR(allowance.spend(4 * dict.dict()->entries.size()));
    for (const auto &[name, value] : dict.dict()->entries) {
      if (!name.isText())
        return invalidInput("keywords must be strings");
      values.named.emplace_back(name.text(), value);
    }
  }
  return values;
}

Result<Value> Evaluator::call(const Value &callee, const Arguments &arguments) {
  MOERT_RETURN_IF_ERROR(requireDefined(callee));
  if (callee.kind() != Kind::kObject)
    return invalidInput("'", callee.typeName(), "' object is not callable");
  return callee.object()->call(arguments, *this);
}

} // namespace moert::chat
