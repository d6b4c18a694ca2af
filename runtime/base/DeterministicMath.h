// log, exp and pow from additions, multiplications and divisions only, so that every machine with
// IEEE 754 arithmetic computes the same bits: an artifact must not depend on the version of libm.
// Not correctly rounded, but close: the test requires a relative error below 1.2e-16 against long
// double (half a unit in the last place is 1.1e-16).
//
// Those of double are not fast: meant for values that a compilation computes once. At run time only
// the decays of recurrences and factors by position need them, a number per head and token.
#pragma once

namespace moert {

/// pi, rounded to double.
inline constexpr double kPi = 3.14159265358979323846;

/// Natural logarithm of a finite x > 0.
double deterministicLog(double x);

/// e^x; 0 below -708.39, where the result would be subnormal, infinity above 709.78.
double deterministicExp(double x);

/// base^exponent for a finite base > 0; limits as for e^x.
double deterministicPow(double base, double exponent);

/// e^x, computed in double and rounded once: for the weights of a vocabulary. Subnormal results are
/// 0, those beyond the largest float infinity; NaN gives NaN.
float deterministicExp32(float x);

} // namespace moert
