#include "compiler/import/StoredType.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

TEST_CASE("every finite F16 is sign * fraction * 2^exponent, exactly") {
  bool allEqual = true;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 0x1f);
    const int fraction = static_cast<int>(bits & 0x3ff);
    if (exponent == 0x1f)
      continue;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    const float expected = static_cast<float>(bits >> 15 ? -magnitude : magnitude);
    allEqual = allEqual && std::bit_cast<uint32_t>(expected) ==
                               std::bit_cast<uint32_t>(moec::f16ToF32(static_cast<uint16_t>(bits)));
  }
  CHECK(allEqual);
}

TEST_CASE("F16 infinities and NaNs stay what they are") {
  CHECK(moec::f16ToF32(0x7c00) == std::numeric_limits<float>::infinity());
  CHECK(moec::f16ToF32(0xfc00) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(moec::f16ToF32(0x7e00)));
  CHECK(std::isnan(moec::f16ToF32(0x7c01)));
}

TEST_CASE("BF16 keeps sign, exponent and fraction bits") {
  bool allEqual = true;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    allEqual = allEqual &&
               std::bit_cast<uint32_t>(moec::bf16ToF32(static_cast<uint16_t>(bits))) == bits << 16;
  CHECK(allEqual);
}
