// The tests of templates, such as `x is defined`.
#include "runtime/text/chat/Builtins.h"
#include "runtime/text/chat/Operators.h"

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

template <bool needsSubscripts> Result<Value> isIterable(const BuiltinCall &call) {
  const Value &value = call.self;
  if (value.isSequence())
    return Value(!needsSubscripts || value.sequence()->hasSubscripts());
  return Value(value.isText() || value.isDict() || value.isUndefined());
}

template <Operator op> Result<Value> compares(const BuiltinCall &call) {
  return applyBinary(op, call.self, call.argument(0), call.allowance());
}

/// Whether value % 2 == remainder.
template <int64_t remainder> Result<Value> isParity(const BuiltinCall &call) {
  MOERT_ASSIGN_OR_RETURN(const Value left, applyBinary(Operator::kModulo, call.self,
                                                       Value(int64_t(2)), call.allowance()));
  return Value(left.integer() == remainder);
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
    {"sequence", isIterable<true>},
    {"iterable", isIterable<false>},
    {"odd", isParity<1>},
    {"even", isParity<0>},
    {"in", compares<Operator::kIn>, {"seq"}, 1},
    {"eq", compares<Operator::kEqual>, {"other"}, 1},
    {"equalto", compares<Operator::kEqual>, {"other"}, 1},
    {"==", compares<Operator::kEqual>, {"other"}, 1},
    {"ne", compares<Operator::kNotEqual>, {"other"}, 1},
    {"!=", compares<Operator::kNotEqual>, {"other"}, 1},
    {"lt", compares<Operator::kLess>, {"other"}, 1},
    {"lessthan", compares<Operator::kLess>, {"other"}, 1},
    {"<", compares<Operator::kLess>, {"other"}, 1},
    {"le", compares<Operator::kLessEqual>, {"other"}, 1},
    {"<=", compares<Operator::kLessEqual>, {"other"}, 1},
    {"gt", compares<Operator::kGreater>, {"other"}, 1},
    {"greaterthan", compares<Operator::kGreater>, {"other"}, 1},
    {">", compares<Operator::kGreater>, {"other"}, 1},
    {"ge", compares<Operator::kGreaterEqual>, {"other"}, 1},
    {">=", compares<Operator::kGreaterEqual>, {"other"}, 1},
};

} // namespace

const Builtin *findTest(std::string_view name) {
  return findBuiltin(kTests, name);
}

} // namespace moert::chat
