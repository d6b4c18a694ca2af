// The constants of exponential(), in one place because all versions must use exactly the same ones.
//
// e^x = 2^n * e^r with n = rne(x * log2(e)) and |r| <= ln(2) / 2. ln(2) is split in two so that
// n * kLn2High is exact. The polynomial (e^r - 1 - r) / r^2 of degree 4 is the minimax one of
// SLEEF's expf.
#pragma once

#include <cstdint>

namespace moert {

constexpr float kExpOverflow = 0x1.62e42ep+6f;   // The largest x with a finite result.
constexpr float kExpUnderflow = -0x1.5d589ep+6f; // The smallest x with a normal result.
constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kLn2High = 0x1.62e4p-1f;
constexpr float kLn2Low = 0x1.7f7d1cp-20f;
// Added to a small float, this leaves the nearest integer in the low bits.
constexpr float kRoundingShift = 0x1.8p+23f;
constexpr float kExpPolynomial[] = {1.98527617612853646278381e-4f, 1.39304355252534151077271e-3f,
                                    8.33336077630519866943359e-3f, 4.16664853692054748535156e-2f,
                                    1.66666671633720397949219e-1f, 0.5f};

} // namespace moert
