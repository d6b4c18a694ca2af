// log, exp and pow from additions, multiplications and divisions only, so that every machine with
// IEEE 754 arithmetic computes the same bits: an artifact must not depend on the version of libm.
// Not correctly rounded, but close: the test requires a relative error below 1.2e-16 against long
// double (half a unit in the last place is 1.1e-16).
//
// Those of double are not fast: meant for values that a compilation computes once. At run time only
// the decays of recurrences and factors by position need them, a number per head and token.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace moert {

/// pi, rounded to double.
inline constexpr double kPi = 3.14159265358979323846;

/// Natural logarithm of a finite x > 0.
double deterministicLog(double x);

/// e^x; 0 below -708.39, where the result would be subnormal, infinity above 709.78; NaN gives NaN.
double deterministicExp(double x);

/// base^exponent for a finite base > 0; limits as for e^x.
double deterministicPow(double base, double exponent);

/// ln 2 in two parts. The first ends in 21 zero bits, so that its product with an exponent is
/// exact.
inline constexpr double kLn2High = 0x1.62e42feep-1;
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

/// e^x as e^rest * 2^n.
struct PowerParts {
  double rest;  // At most ln(2)/2 from 0.
  double power; // 2^n
};

/// |x| < 708. Adding the shift rounds to an integer in its low bits. Without branches, as the
/// functions below, so that a loop over a vocabulary becomes vector code.
inline PowerParts powerPartsOf(double x) {
  constexpr double kInverseLn2 = 1.4426950408889634, kShift = 0x1.8p52;
  const double shifted = x * kInverseLn2 + kShift;
  const double n = shifted - kShift;
  return {(x - n * kLn2High) - n * kLn2Low,
          std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52)};
}

/// e^x, computed in double and rounded once: for the weights of a vocabulary. Subnormal results are
/// 0, those beyond the largest float infinity; NaN gives NaN.
inline float deterministicExp32(float x) {
  constexpr float kLeast = -87.33654f, kMost = 88.722839f; // Results that are normal floats.
  const float above = x < kLeast ? kLeast : x;
  const auto [r, power] = powerPartsOf(double(above > kMost ? kMost : above));
  // The Taylor series up to r^10/10!: a relative error below 2^-41, 17 bits beyond a float.
  double series = 1.0 / 3628800;
  series = series * r + 1.0 / 362880;
  series = series * r + 1.0 / 40320;
  series = series * r + 1.0 / 5040;
  series = series * r + 1.0 / 720;
  series = series * r + 1.0 / 120;
  series = series * r + 1.0 / 24;
  series = series * r + 1.0 / 6;
  series = series * r + 0.5;
  series = series * r + 1.0;
  series = series * r + 1.0;
  const auto value = static_cast<float>(series * power);
  const float notLarge = x > kMost ? std::numeric_limits<float>::infinity() : value;
  return x < kLeast ? 0.0f : notLarge;
}

/// e^x for x of at most about 0, within 2 units in the last place and much faster than
/// deterministicExp(): for the weights of a vocabulary in double. Below -700 it is e^-700, which is
/// negligible beside a largest weight of 1. e^r by Taylor's series, whose rest is below 2^-57.
inline double deterministicWeight(double x) {
  const auto [r, power] = powerPartsOf(x < -700 ? -700 : x);
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r * r + r;
  return power + power * p;
}

} // namespace moert
