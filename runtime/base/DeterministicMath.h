// log, exp and pow from additions, multiplications and divisions alone, so that every machine that
// keeps IEEE 754 gives the same bits: what depends on libm's version must not reach an artifact.
// Not correctly rounded, but close: the test holds them against long double within 1.2e-16
// relative (half a unit in the last place is 1.1e-16).
//
// Not for speed: they serve what a compilation works out once. The compiler alone calls them, from
// importing to plans, which include nothing of each other but this folder.
#pragma once

namespace moert {

/// pi, rounded.
inline constexpr double kPi = 3.14159265358979323846;

/// Natural logarithm of a finite x > 0.
double deterministicLog(double x);

/// e^x; 0 below -708.39, where the result would be subnormal, infinity above 709.78.
double deterministicExp(double x);

/// base^exponent for a finite base > 0; limits as for e^x.
double deterministicPow(double base, double exponent);

} // namespace moert
