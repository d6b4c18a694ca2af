#include "runtime/chat/Arithmetic.h"

#include "runtime/base/Excerpt.h"
#include "runtime/chat/PythonText.h"

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

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

bool hasSeparatedDigits(std::string_view text) {
  for (size_t i = 1; i + 1 < text.size(); ++i)
    if (text[i] == '_' && isDigit(text[i - 1]) && isDigit(text[i + 1]))
      return true;
  return false;
}

} // namespace

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

Result<Value> calculate(Operator op, const Value &left, const Value &right) {
  const bool divides = op >= Operator::kDivide && op <= Operator::kModulo;
  if (divides && right.number() == 0)
    return invalidInput("division by zero");
  if (left.isIntegral() && right.isIntegral())
    return calculateIntegers(op, left.integer(), right.integer());
  return calculateFloats(op, left.number(), right.number());
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
  if (hasSeparatedDigits(text))
    return notSupported("the number '", excerpt(text), "' with an underscore");
  if (text.size() > 1 && text[0] == '+' && isDigit(text[1]))
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
