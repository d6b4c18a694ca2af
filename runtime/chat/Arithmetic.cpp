#include "runtime/chat/Arithmetic.h"

#include "runtime/base/DeterministicMath.h"
#include "runtime/chat/PythonText.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace moert::chat {

namespace {

constexpr double kTwoTo63 = 9223372036854775808.0;

Status divisionByZero() {
  return invalidInput("division by zero");
}

/// Rounds to negative infinity, as Python does; the remainder has the divisor's sign.
Result<Value> floorDivide(int64_t left, int64_t right, bool wantsRemainder) {
  if (right == 0)
    return divisionByZero();
  if (right == -1) // The only divisor that can overflow.
    return wantsRemainder ? Result<Value>(Value(int64_t(0)))
                          : calculate(BinaryOperator::kSubtract, Value(int64_t(0)), Value(left));
  const int64_t remainder = left % right;
  const bool isBelow = remainder != 0 && (remainder < 0) != (right < 0);
  return Value(wantsRemainder ? remainder + (isBelow ? right : 0) : left / right - isBelow);
}

/// A finite base > 0 to a finite exponent. Square roots are correctly rounded.
double powerOfPositive(double base, double exponent) {
  if (exponent == 0.5)
    return std::sqrt(base);
  exponent = std::clamp(exponent, -0x1p64, 0x1p64); // Beyond, results are 0, 1 or infinite.
  const double result = deterministicPow(base, exponent);
  if (result != 0)
    return result;
  const double root = deterministicPow(base, exponent / 2);
  return root * root; // Where the result is subnormal, or 0.
}

/// base^exponent as C defines it for doubles. Whole results below 2^53 are exact.
double power(double base, double exponent) {
  if (exponent == 0 || base == 1)
    return 1;
  if (std::isnan(base) || std::isnan(exponent))
    return base + exponent;
  const double magnitude = std::fabs(base);
  if (std::isinf(exponent))
    return magnitude == 1 ? 1 : (magnitude > 1) == (exponent > 0) ? std::fabs(exponent) : 0;
  const bool isOdd = std::fmod(exponent, 2) != 0 && std::floor(exponent) == exponent;
  const double result = magnitude == 0 || std::isinf(magnitude)
                            ? (std::isinf(magnitude) == (exponent > 0) ? INFINITY : 0)
                            : powerOfPositive(magnitude, exponent);
  return isOdd && std::signbit(base) ? -result : result;
}

Result<Value> integerPower(int64_t base, int64_t exponent) {
  if (exponent < 0 && base == 0)
    return invalidInput("0.0 cannot be raised to a negative power");
  if (exponent < 0)
    return Value(power(static_cast<double>(base), static_cast<double>(exponent)));
  int64_t result = 1;
  bool overflows = false;
  while (exponent > 0) {
    if (exponent & 1)
      overflows |= __builtin_mul_overflow(result, base, &result);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
      overflows = true;
    if (overflows)
      return integerOverflow();
  }
  return Value(result);
}

// One rounding, as Python's, for all integers that doubles hold. For larger ones the quotient is
// rounded to a long double first, so its last bit may differ.
Result<Value> divideIntegers(int64_t left, int64_t right) {
  if (right == 0)
    return divisionByZero();
  constexpr int64_t kExact = int64_t(1) << 53;
  const bool isExact = std::max(left, right) <= kExact && std::min(left, right) >= -kExact;
  return Value(isExact ? static_cast<double>(left) / static_cast<double>(right)
                       : static_cast<double>(static_cast<long double>(left) /
                                             static_cast<long double>(right)));
}

Result<Value> calculateIntegers(BinaryOperator op, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflows = false;
  switch (op) {
  case BinaryOperator::kAdd:
    overflows = __builtin_add_overflow(left, right, &result);
    break;
  case BinaryOperator::kSubtract:
    overflows = __builtin_sub_overflow(left, right, &result);
    break;
  case BinaryOperator::kMultiply:
    overflows = __builtin_mul_overflow(left, right, &result);
    break;
  case BinaryOperator::kFloorDivide:
  case BinaryOperator::kModulo:
    return floorDivide(left, right, op == BinaryOperator::kModulo);
  case BinaryOperator::kPower:
    return integerPower(left, right);
  case BinaryOperator::kDivide:
    return divideIntegers(left, right);
  }
  return overflows ? Result<Value>(integerOverflow()) : Result<Value>(Value(result));
}

Result<Value> floatPower(double left, double right) {
  if (left == 0 && right < 0)
    return invalidInput("0.0 cannot be raised to a negative power");
  if (left < 0 && std::isfinite(left) && std::isfinite(right) && std::floor(right) != right)
    return invalidInput("a negative number to a fractional power is a complex number, which is not "
                        "supported");
  const double result = power(left, right);
  if (std::isinf(result) && std::isfinite(left) && std::isfinite(right))
    return invalidInput("the result of ** is too large for a float");
  return Value(result);
}

double floatRemainder(double left, double right) {
  const double remainder = std::fmod(left, right);
  if (remainder == 0)
    return std::copysign(0.0, right);
  return (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

// As CPython's float_floor_div: the quotient of the exact multiple, rounded to the nearest integer.
double floatFloorDivide(double left, double right) {
  double remainder = std::fmod(left, right);
  double quotient = (left - remainder) / right;
  if (remainder != 0 && (remainder < 0) != (right < 0))
    quotient -= 1;
  if (quotient == 0)
    return std::copysign(0.0, left / right);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Result<Value> calculateFloats(BinaryOperator op, double left, double right) {
  if (op >= BinaryOperator::kDivide && op <= BinaryOperator::kModulo && right == 0)
    return divisionByZero();
  switch (op) {
  case BinaryOperator::kAdd:
    return Value(left + right);
  case BinaryOperator::kSubtract:
    return Value(left - right);
  case BinaryOperator::kMultiply:
    return Value(left * right);
  case BinaryOperator::kDivide:
    return Value(left / right);
  case BinaryOperator::kFloorDivide:
    return Value(floatFloorDivide(left, right));
  case BinaryOperator::kModulo:
    return Value(floatRemainder(left, right));
  case BinaryOperator::kPower:
    break;
  }
  return floatPower(left, right);
}

/// Digits with single underscores between them; empty if there is anything else.
std::string withoutUnderscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool isBetween = i > 0 && i + 1 < text.size() &&
                           std::isalnum(static_cast<unsigned char>(text[i - 1])) &&
                           std::isalnum(static_cast<unsigned char>(text[i + 1]));
    if (text[i] != '_')
      digits += text[i];
    else if (!isBetween)
      return "";
  }
  return digits;
}

/// Removes the prefix of that base, such as 0x; base 0 means the one that the prefix names.
void removePrefix(std::string_view &digits, int64_t &base) {
  static constexpr std::pair<char, int64_t> kPrefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
  if (digits.size() > 2 && digits[0] == '0') {
    for (const auto &[letter, prefixBase] : kPrefixes) {
      if ((digits[1] | 0x20) == letter && (base == prefixBase || base == 0)) {
        base = prefixBase;
        digits.remove_prefix(digits[2] == '_' ? 3 : 2);
        return;
      }
    }
  }
  if (base == 0)
    base = 10;
}

} // namespace

Status integerOverflow() {
  return invalidInput("an integer needs more than 64 bits, which is not supported");
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

std::optional<int64_t> wholeNumber(double number) {
  if (!(number >= -kTwoTo63 && number < kTwoTo63) || std::floor(number) != number)
    return std::nullopt;
  return static_cast<int64_t>(number);
}

Result<Value> calculate(BinaryOperator op, const Value &left, const Value &right) {
  if (left.isIntegral() && right.isIntegral())
    return calculateIntegers(op, left.integer(), right.integer());
  return calculateFloats(op, left.number(), right.number());
}

// As CPython does: the decimal that is nearest to the exact binary value, half to even.
double roundToDigits(double number, int64_t digits) {
  constexpr int64_t kMostDigits = 323; // More change nothing.
  if (!std::isfinite(number) || digits > kMostDigits)
    return number;
  if (digits < -308)
    return std::copysign(0.0, number);
  if (digits < 0) {
    const double unit = power(10.0, static_cast<double>(-digits));
    return std::nearbyint(number / unit) * unit;
  }
  char text[700];
  std::snprintf(text, sizeof text, "%.*f", static_cast<int>(digits), number);
  return std::strtod(text, nullptr);
}

std::optional<Result<int64_t>> parseInteger(std::string_view text, int64_t base) {
  text = strip(text, nullptr, StripSide::kBoth);
  const bool isNegative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+'))
    text.remove_prefix(1);
  removePrefix(text, base);
  const std::string digits = withoutUnderscores(text);
  if (digits.empty() || digits[0] == '-' || base < 2 || base > 36)
    return std::nullopt;
  uint64_t magnitude = 0;
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude,
                                   static_cast<int>(base));
  if (end.ptr != digits.data() + digits.size())
    return std::nullopt;
  const uint64_t most = uint64_t(INT64_MAX) + isNegative;
  if (end.ec != std::errc() || magnitude > most)
    return Result<int64_t>(integerOverflow());
  return Result<int64_t>(static_cast<int64_t>(isNegative ? 0 - magnitude : magnitude));
}

std::optional<double> parseFloat(std::string_view text) {
  text = strip(text, nullptr, StripSide::kBoth);
  const std::string digits = withoutUnderscores(text);
  // strtod also reads hexadecimal numbers, which Python does not.
  if (digits.empty() || digits.find_first_of("xXpP(") != std::string::npos ||
      isPythonSpace(static_cast<unsigned char>(digits[0])))
    return std::nullopt;
  char *end = nullptr;
  const double number = std::strtod(digits.c_str(), &end);
  return end == digits.c_str() + digits.size() ? std::optional(number) : std::nullopt;
}

} // namespace moert::chat
