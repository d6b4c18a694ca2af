// The tests of templates, such as `x is defined`.
#include "runtime/chat/Builtins.h"
#include "runtime/chat/PythonText.h"

namespace moert::chat {

namespace {

template <Kind kind> Result<Value> isOfKind(const BuiltinCall &call) {
  return Value(call.self.kind() == kind);
}

template <bool wanted> Result<Value> isBoolean(const BuiltinCall &call) {
  return Value(call.self.kind() == Kind::kBoolean && call.self.boolean() == wanted);
}

Result<Value> isDefined(const BuiltinCall &call) {
  return Value(!call.self.isUndefined());
}

Result<Value> isNumber(const BuiltinCall &call) {
  return Value(call.self.isNumber());
}

Result<Value> isSequence(const BuiltinCall &call) {
  const Value &value = call.self;
  const bool isSequence =
      value.isSequence() && value.sequence()->hasLength() && value.sequence()->hasSubscripts();
  return Value(isSequence || value.isText() || value.isDict() || value.isUndefined());
}

Result<Value> isIterable(const BuiltinCall &call) {
  const Value &value = call.self;
  return Value(value.isSequence() || value.isText() || value.isDict() || value.isUndefined());
}

Result<Value> isCallable(const BuiltinCall &call) {
  return Value(call.self.isUndefined() || // It can be called, which is an error.
               (call.self.kind() == Kind::kObject && call.self.object()->isCallable()));
}

template <CompareOperator op> Result<Value> compares(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const bool holds,
                         compare(op, call.self, call.argument(0), call.allowance()));
  return Value(holds);
}

/// Whether value % divisor == remainder.
Result<Value> hasRemainder(const BuiltinCall &call, const Value &divisor, int64_t remainder) {
  MOERT_ASSIGN_OR_RETURN(
      const Value left, applyBinary(BinaryOperator::kModulo, call.self, divisor, call.allowance()));
  MOERT_ASSIGN_OR_RETURN(const bool holds, isEqual(left, Value(remainder), call.allowance()));
  return Value(holds);
}

Result<Value> isOdd(const BuiltinCall &call) {
  return hasRemainder(call, Value(int64_t(2)), 1);
}
Result<Value> isEven(const BuiltinCall &call) {
  return hasRemainder(call, Value(int64_t(2)), 0);
}
Result<Value> isDivisibleBy(const BuiltinCall &call) {
  return hasRemainder(call, call.argument(0), 0);
}

template <bool upper> Result<Value> isCase(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value text, toText(call.self, call.allowance()));
  return Value(isCased(text.text(), upper));
}

/// Identity, which only None and booleans have here as in Python.
Result<Value> isSame(const BuiltinCall &call) {
  const Value &left = call.self, &right = call.argument(0);
  if (left.kind() != right.kind())
    return Value(false);
  if (left.isNone())
    return Value(true);
  if (left.kind() == Kind::kBoolean)
    return Value(left.boolean() == right.boolean());
  return invalidInput("the test 'sameas' of a value of type ", left.typeName(),
                      " is not supported; expected true, false or none");
}

template <const Builtin *(*find)(std::string_view)> Result<Value> exists(const BuiltinCall &call) {
  if (!call.self.isText())
    return Value(false);
  return Value(find(call.self.text()) != nullptr);
}

constexpr Builtin kTests[] = {
    {"defined", isDefined},
    {"undefined", isOfKind<Kind::kUndefined>},
    {"none", isOfKind<Kind::kNone>},
    {"boolean", isOfKind<Kind::kBoolean>},
    {"true", isBoolean<true>},
    {"false", isBoolean<false>},
    {"integer", isOfKind<Kind::kInteger>},
    {"float", isOfKind<Kind::kFloat>},
    {"number", isNumber},
    {"string", isOfKind<Kind::kText>},
    {"mapping", isOfKind<Kind::kDict>},
    {"sequence", isSequence},
    {"iterable", isIterable},
    {"callable", isCallable},
    {"odd", isOdd},
    {"even", isEven},
    {"divisibleby", isDivisibleBy, {"num"}, 1},
    {"lower", isCase<false>},
    {"upper", isCase<true>},
    {"sameas", isSame, {"other"}, 1},
    {"filter", exists<findFilter>},
    {"test", exists<findTest>},
    {"in", compares<CompareOperator::kIn>, {"seq"}, 1},
    {"eq", compares<CompareOperator::kEqual>, {"other"}, 1},
    {"equalto", compares<CompareOperator::kEqual>, {"other"}, 1},
    {"==", compares<CompareOperator::kEqual>, {"other"}, 1},
    {"ne", compares<CompareOperator::kNotEqual>, {"other"}, 1},
    {"!=", compares<CompareOperator::kNotEqual>, {"other"}, 1},
    {"lt", compares<CompareOperator::kLess>, {"other"}, 1},
    {"lessthan", compares<CompareOperator::kLess>, {"other"}, 1},
    {"<", compares<CompareOperator::kLess>, {"other"}, 1},
    {"le", compares<CompareOperator::kLessEqual>, {"other"}, 1},
    {"<=", compares<CompareOperator::kLessEqual>, {"other"}, 1},
    {"gt", compares<CompareOperator::kGreater>, {"other"}, 1},
    {"greaterthan", compares<CompareOperator::kGreater>, {"other"}, 1},
    {">", compares<CompareOperator::kGreater>, {"other"}, 1},
    {"ge", compares<CompareOperator::kGreaterEqual>, {"other"}, 1},
    {">=", compares<CompareOperator::kGreaterEqual>, {"other"}, 1},
};

} // namespace

const Builtin *findTest(std::string_view name) {
  for (const Builtin &test : kTests)
    if (test.name == name)
      return &test;
  return nullptr;
}

} // namespace moert::chat
