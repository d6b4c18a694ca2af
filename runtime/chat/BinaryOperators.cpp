// Python's arithmetic operators on all kinds of values; declared in Operators.h.
#include "runtime/chat/Arithmetic.h"
#include "runtime/chat/Operators.h"

#include <algorithm>

namespace moert::chat {

namespace {

constexpr const char *kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

bool areLists(const Value &left, const Value &right) {
  return left.isSequence() && right.isSequence() &&
         left.sequence()->kind == right.sequence()->kind &&
         left.sequence()->kind <= SequenceKind::kTuple;
}

Result<Value> joinTexts(const Value &left, const Value &right, Allowance &allowance) {
  TextBuilder joined(allowance);
  MOERT_RETURN_IF_ERROR(joined.append(left.text()));
  MOERT_RETURN_IF_ERROR(joined.append(right.text()));
  return std::move(joined).finish();
}

Result<Value> joinLists(const Sequence &left, const Sequence &right, Allowance &allowance) {
  MOERT_RETURN_IF_ERROR(allowance.spend(left.items.size() + right.items.size()));
  std::vector<Value> items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return allowance.sequence(left.kind, std::move(items));
}

bool isRepeatable(const Value &value) {
  return value.isText() || (value.isSequence() && value.sequence()->kind <= SequenceKind::kTuple);
}

Result<Value> repeat(const Value &value, int64_t times, Allowance &allowance) {
  const uint64_t count = static_cast<uint64_t>(std::max<int64_t>(times, 0));
  if (value.isText()) {
    TextBuilder repeated(allowance);
    MOERT_RETURN_IF_ERROR(repeated.repeat(value.text(), count));
    return std::move(repeated).finish();
  }
  const std::vector<Value> &items = value.sequence()->items;
  uint64_t size = 0;
  if (__builtin_mul_overflow(uint64_t(items.size()), count, &size))
    return integerOverflow();
  MOERT_RETURN_IF_ERROR(allowance.spend(size));
  std::vector<Value> repeated;
  repeated.reserve(size);
  while (repeated.size() < size)
    repeated.insert(repeated.end(), items.begin(), items.end());
  return allowance.sequence(value.sequence()->kind, std::move(repeated));
}

Result<Value> formatValues(const Value &format, const Value &right, Allowance &allowance) {
  if (right.isSequence() && right.sequence()->kind == SequenceKind::kTuple)
    return formatPercent(format.text(), right.sequence()->items, nullptr, allowance);
  return formatPercent(format.text(), {right}, right.isDict() ? right.dict().get() : nullptr,
                       allowance);
}

} // namespace

Result<Value> applyBinary(BinaryOperator op, const Value &left, const Value &right,
                          Allowance &allowance) {
  if (left.isNumber() && right.isNumber())
    return calculate(op, left, right);
  if (op == BinaryOperator::kModulo && left.isText())
    return formatValues(left, right, allowance);
  MOERT_RETURN_IF_ERROR(requireDefined(left));
  MOERT_RETURN_IF_ERROR(requireDefined(right));
  if (op == BinaryOperator::kAdd && left.isText() && right.isText())
    return joinTexts(left, right, allowance);
  if (op == BinaryOperator::kAdd && areLists(left, right))
    return joinLists(*left.sequence(), *right.sequence(), allowance);
  if (op == BinaryOperator::kMultiply && isRepeatable(left) && right.isIntegral())
    return repeat(left, right.integer(), allowance);
  if (op == BinaryOperator::kMultiply && isRepeatable(right) && left.isIntegral())
    return repeat(right, left.integer(), allowance);
  return invalidInput("unsupported operand type(s) for ", kSymbols[static_cast<size_t>(op)], ": '",
                      left.typeName(), "' and '", right.typeName(), "'");
}

Result<Value> negate(const Value &value) {
  MOERT_RETURN_IF_ERROR(requireDefined(value));
  if (value.isIntegral())
    return calculate(BinaryOperator::kSubtract, Value(int64_t(0)), value);
  if (value.kind() == Kind::kFloat)
    return Value(-value.number());
  return invalidInput("bad operand type for unary -: '", value.typeName(), "'");
}

} // namespace moert::chat
