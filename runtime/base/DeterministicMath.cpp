#include "runtime/base/DeterministicMath.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace moert {

namespace {

/// high + low, |low| at most half a unit in the last place of high. pow needs a logarithm more
/// precise than a double, because multiplying by the exponent amplifies its error.
struct DoubleDouble {
  double high, low;
};

/// a + b exactly (Knuth).
DoubleDouble twoSum(double a, double b) {
  const double sum = a + b;
  const double bPart = sum - a;
  return {sum, (a - (sum - bPart)) + (b - bPart)};
}

/// a * b exactly (Dekker), for factors far from overflow. Uses no fma: on hardware without it, fma
/// is a call into libm.
DoubleDouble twoProduct(double a, double b) {
  constexpr double kSplit = 0x1p27 + 1;
  const double aScaled = kSplit * a, bScaled = kSplit * b;
  const double aHigh = aScaled - (aScaled - a), bHigh = bScaled - (bScaled - b);
  const double aLow = a - aHigh, bLow = b - bHigh;
  const double product = a * b;
  return {product, ((aHigh * bHigh - product) + aHigh * bLow + aLow * bHigh) + aLow * bLow};
}

/// 2^exponent, -1022 <= exponent <= 1023.
double powerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

/// x = mantissa * 2^exponent with sqrt(1/2) <= mantissa < sqrt(2); then log(mantissa) =
/// 2 atanh(s), s = (mantissa - 1) / (mantissa + 1), |s| < 0.172, as a series in s^2.
DoubleDouble logarithm(double x) {
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 0x1p54;
    exponent = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double mantissa =
      std::bit_cast<double>((bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1023} << 52);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }

  const double numerator = mantissa - 1; // Exact.
  const DoubleDouble denominator = twoSum(mantissa, 1);
  const double s = numerator / denominator.high;
  const DoubleDouble back = twoProduct(s, denominator.high);
  const double sRest =
      ((numerator - back.high) - back.low - s * denominator.low) / denominator.high;

  const double square = s * s;
  double series = 0; // 1/3 + s^2/5 + ... + s^22/25; the remainder is below 2^-60.
  for (int n = 25; n >= 3; n -= 2)
    series = series * square + 1.0 / n;
  const double mantissaRest = 2 * (s * (square * series) + sRest);

  const double scale = exponent;
  const DoubleDouble sum = twoSum(scale * kLn2High, 2 * s);
  return twoSum(sum.high, sum.low + (mantissaRest + scale * kLn2Low));
}

/// e^(high + low) = 2^k * e^r, |r| <= ln(2)/2, by the Taylor series up to r^14/14!.
double exponential(DoubleDouble x) {
  constexpr double kInverseLn2 = 1.4426950408889634;
  if (x.high != x.high)
    return x.high;
  if (x.high > 709.78)
    return std::numeric_limits<double>::infinity();
  if (x.high < -708.39) // The result would be subnormal.
    return 0;
  const int k = static_cast<int>(x.high * kInverseLn2 + (x.high < 0 ? -0.5 : 0.5));
  const DoubleDouble reduced = twoSum(x.high - k * kLn2High, x.low - k * kLn2Low);
  const double r = reduced.high;
  double series = 0; // 1/2 + r/6 + ... + r^12/14!
  for (int n = 14; n >= 3; --n)
    series = (series + 1) * r / n;
  series = (series + 1) * 0.5;
  const DoubleDouble sum = twoSum(1, r);
  const double value = sum.high + (sum.low + (reduced.low + r * r * series));
  // In two steps: 2^k alone could overflow where the result does not.
  return value * powerOfTwo(k / 2) * powerOfTwo(k - k / 2);
}

} // namespace

double deterministicLog(double x) {
  return logarithm(x).high;
}

double deterministicExp(double x) {
  return exponential({x, 0});
}

double deterministicPow(double base, double exponent) {
  const DoubleDouble log = logarithm(base);
  const DoubleDouble product = twoProduct(log.high, exponent);
  return exponential(twoSum(product.high, product.low + log.low * exponent));
}

} // namespace moert
