// Python's operators of two values; declared in Operators.h.
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/Operators.h"
#include "runtime/chat/Printing.h"

#include <algorithm>

namespace moert::chat {

namespace {

bool areLists(const Value &left, const Value &right) {
  return left.isSequence() && right.isSequence() &&
         left.sequence()->kind == right.sequence()->kind &&
         left.sequence()->kind <= SequenceKind::kTuple;
}

/// The texts of both values, one after the other.
Result<Value> concatenate(const Value &left, const Value &right, Allowance &allowance) {
  TextBuilder joined(allowance);
  MOERT_RETURN_IF_ERROR(appendText(left, joined));
  MOERT_RETURN_IF_ERROR(appendText(right, joined));
  return std::move(joined).finish();
}

Result<Value> joinLists(const Sequence &left, const Sequence &right, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spend(left.items.size() + right.items.size()));
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return allowance.sequence(left.kind, std::move(items));
}

Result<Value> repeat(const std::string &text, int64_t times, Allowance &allowance) {
  TextBuilder repeated(allowance);
  MOERT_RETURN_IF_ERROR(repeated.repeat(text, static_cast<uint64_t>(std::max<int64_t>(times, 0))));
  return std::move(repeated).finish();
}

/// +, -, *, /, // and %.
Result<Value> applyArithmetic(Operator op, const Value &left, const Value &right,
                              Allowance &allowance) {
  static constexpr const char *kSymbols[] = {"+", "-", "~", "*", "/", "//", "%"};
  const char *symbol = kSymbols[static_cast<size_t>(op) - static_cast<size_t>(Operator::kAdd)];
  if (left.isNumber() && right.isNumber())
    return calculate(op, left, right);
  if (op == Operator::kModulo && left.isText())
    return notSupported("formatting a text with the operator '%'");
  MOERT_RETURN_IF_ERROR(requireDefined(left));
  MOERT_RETURN_IF_ERROR(requireDefined(right));
  if (op == Operator::kAdd && left.isText() && right.isText())
    return concatenate(left, right, allowance);
  if (op == Operator::kAdd && areLists(left, right))
    return joinLists(*left.sequence(), *right.sequence(), allowance);
  if (op == Operator::kMultiply && left.isText() && right.isIntegral())
    return repeat(left.text(), right.integer(), allowance);
  if (op == Operator::kMultiply && right.isText() && left.isIntegral())
    return repeat(right.text(), left.integer(), allowance);
  if (op == Operator::kMultiply && (left.isSequence() || right.isSequence()))
    return notSupported("a list times a number");
  return invalidInput("unsupported operand type(s) for ", symbol, ": '", left.typeName(), "' and '",
                      right.typeName(), "'");
}

/// Whether left <= right. Not the negation of >: NaN is neither less nor greater nor equal.
Result<bool> isAtMost(const Value &left, const Value &right, Allowance &allowance) {
  MOERT_ASSIGN_OR_RETURN(const bool isBefore, isLess(left, right, allowance));
  return isBefore ? Result<bool>(true) : isEqual(left, right, allowance);
}

/// Whether the comparison `op`, not negated, holds.
Result<bool> compare(Operator op, const Value &left, const Value &right, Allowance &allowance) {
  switch (op) {
  case Operator::kLess:
    return isLess(left, right, allowance);
  case Operator::kGreater:
    return isLess(right, left, allowance);
  case Operator::kLessEqual:
    return isAtMost(left, right, allowance);
  case Operator::kGreaterEqual:
    return isAtMost(right, left, allowance);
  case Operator::kIn:
  case Operator::kNotIn:
    return contains(right, left, allowance);
  default:
    return isEqual(left, right, allowance);
  }
}

} // namespace

Result<Value> applyBinary(Operator op, const Value &left, const Value &right,
                          Allowance &allowance) {
  if (op == Operator::kConcatenate)
    return concatenate(left, right, allowance);
  if (op >= Operator::kAdd)
    return applyArithmetic(op, left, right, allowance);
  MOERT_ASSIGN_OR_RETURN(const bool holds, compare(op, left, right, allowance));
  return Value(holds != (op == Operator::kNotEqual || op == Operator::kNotIn));
}

Result<Value> negate(const Value &value) {
  MOERT_RETURN_IF_ERROR(requireDefined(value));
  if (value.isIntegral())
    return calculate(Operator::kSubtract, Value(int64_t(0)), value);
  if (value.kind() == Kind::kFloat)
    return Value(-value.number());
  return invalidInput("bad operand type for unary -: '", value.typeName(), "'");
}

Result<Value> toText(const Value &value, Allowance &allowance) {
  if (value.isText())
    return value;
  TextBuilder text(allowance);
  MOERT_RETURN_IF_ERROR(appendText(value, text));
  return std::move(text).finish();
}

} // namespace moert::chat
