// Python's numbers, as far as 64-bit integers and doubles go, and its operators of two values;
// declared in Operators.h.
#include "runtime/text/chat/Operators.h"

#include "runtime/base/Excerpt.h"
#include "runtime/text/chat/Printing.h"
#include "runtime/text/chat/PythonText.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace moert::chat {

namespace {

/// Rounds to negative infinity, as Python does; the remainder has the divisor's sign.
Result<Value> floorDivide(int64_t left, int64_t right, bool wantsRemainder) {
  if (right == -1) // The only divisor that can overflow.
    return wantsRemainder ? Result<Value>(Value(int64_t(0))) : negate(Value(left));
  const int64_t remainder = left % right;
  const bool isBelow = remainder != 0 && (remainder < 0) != (right < 0);
  return Value(wantsRemainder ? remainder + (isBelow ? right : 0) : left / right - isBelow);
}

// Doubles hold these integers, so that the quotient is rounded once, as Python's.
Result<Value> divideIntegers(int64_t left, int64_t right) {
  constexpr int64_t kExact = int64_t(1) << 53;
  if (std::max(left, right) > kExact || std::min(left, right) < -kExact)
    return notSupported("a quotient of integers above 2^53");
  return Value(static_cast<double>(left) / static_cast<double>(right));
}

Result<Value> calculateIntegers(Operator op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
  case Operator::kAdd:
    overflows = __builtin_add_overflow(left, right, &result);
    break;
  case Operator::kSubtract:
    overflows = __builtin_sub_overflow(left, right, &result);
    break;
  case Operator::kMultiply:
    overflows = __builtin_mul_overflow(left, right, &result);
    break;
  case Operator::kDivide:
    return divideIntegers(left, right);
  default:
    return floorDivide(left, right, op == Operator::kModulo);
  }
  return overflows ? Result<Value>(integerOverflow()) : Result<Value>(Value(result));
}

Result<Value> calculateFloats(Operator op, double left, double right) {
  switch (op) {
  case Operator::kAdd:
    return Value(left + right);
  case Operator::kSubtract:
    return Value(left - right);
  case Operator::kMultiply:
    return Value(left * right);
  case Operator::kDivide:
    return Value(left / right);
  default:
    return notSupported("the operator '", op == Operator::kModulo ? "%" : "//", "' of floats");
  }
}

/// left op right of two numbers.
Result<Value> calculate(Operator op, const Value &left, const Value &right) {
  const bool divides = op >= Operator::kDivide && op <= Operator::kModulo;
  if (divides && right.number() == 0)
    return invalidInput("division by zero");
  if (left.isIntegral() && right.isIntegral())
    return calculateIntegers(op, left.integer(), right.integer());
  return calculateFloats(op, left.number(), right.number());
}

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

Status integerOverflow() {
  return notSupported("an integer needs more than 64 bits, which");
}

std::partial_ordering compareNumbers(const Value &left, const Value &right) {
  if (left.isIntegral() && right.isIntegral())
    return left.integer() <=> right.integer();
  // A long double holds each 64-bit integer and each double.
  auto exact = [](const Value &value) {
    return value.isIntegral() ? static_cast<long double>(value.integer())
                              : static_cast<long double>(value.number());
  };
  return exact(left) <=> exact(right);
}

Result<int64_t> integerPart(double number) {
  constexpr double kTwoTo63 = 9223372036854775808.0;
  const double whole = std::trunc(number);
  if (!(whole >= -kTwoTo63 && whole < kTwoTo63))
    return integerOverflow();
  return static_cast<int64_t>(whole);
}

Result<std::optional<Value>> parseNumber(std::string_view text) {
  using Found = std::optional<Value>;
  text = strip(text, nullptr, StripSide::kBoth);
  const bool startsAsNumber = text.find_first_of("0123456789") <= 1; // Perhaps after a sign.
  if (startsAsNumber && text.find('_') != std::string_view::npos)
    return notSupported("the number '", excerpt(text), "' with an underscore");
  if (startsAsNumber && text[0] == '+')
    text.remove_prefix(1);
  const char *const end = text.data() + text.size();
  int64_t integer = 0;
  const auto parsed = std::from_chars(text.data(), end, integer);
  if (parsed.ptr == end && !text.empty())
    return parsed.ec == std::errc() ? Result<Found>(Value(integer))
                                    : Result<Found>(integerOverflow());
  // strtod also reads hexadecimal numbers, which Python does not.
  const std::string digits(text);
  if (digits.empty() || digits.find_first_of("xXpP(") != std::string::npos)
    return Found();
  char *last = nullptr;
  const double number = std::strtod(digits.c_str(), &last);
  return last == digits.c_str() + digits.size() ? Found(Value(number)) : Found();
}

} // namespace moert::chat
