// e^x, with the same bits on every machine.
#include "runtime/exec/ExpConstants.h"
#include "runtime/exec/Kernels.h"

#include <bit>
#include <cmath>
#include <limits>

namespace moert {

float exponential(float x) {
  if (std::isnan(x))
    return x;
  if (x > kExpOverflow)
    return std::numeric_limits<float>::infinity();
  if (x < kExpUnderflow)
    return 0;
  float shifted = std::fma(x, kLog2E, kRoundingShift);
  float n = shifted - kRoundingShift;
  float r = std::fma(n, -kLn2High, x);
  r = std::fma(n, -kLn2Low, r);

  float polynomial = kExpPolynomial[0];
  for (int i = 1; i < 6; ++i)
    polynomial = std::fma(polynomial, r, kExpPolynomial[i]);
  float mantissa = std::fma(r * r, polynomial, r) + 1.0f;

  // Times 2^n, added to the exponent, because for n = 128 the factor 2^n is not a finite float.
  uint32_t exponent = (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRoundingShift))
                      << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(mantissa) + exponent);
}

} // namespace moert
