#include "runtime/base/HalfFloat.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

using namespace moert;

TEST_CASE("every f16 survives a round trip through f32") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = f16ToF32(uint16_t(bits));
    if (std::isnan(value))
      CHECK(std::isnan(f16ToF32(f32ToF16(value))));
    else if (f32ToF16(value) != bits)
      FAIL("f16 ", bits);
  }
}

TEST_CASE("every bf16 survives a round trip through f32") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = bf16ToF32(uint16_t(bits));
    if (std::isnan(value))
      CHECK(std::isnan(bf16ToF32(f32ToBf16(value))));
    else if (f32ToBf16(value) != bits)
      FAIL("bf16 ", bits);
  }
}

// Between two neighbours a < b, everything below the middle rounds to a, everything above it to b,
// and the middle to the one with even bits.
template <typename ToFloat, typename FromFloat>
static void checkRounding(uint32_t lastFinite, ToFloat toFloat, FromFloat fromFloat) {
  for (uint32_t bits = 0; bits < lastFinite; ++bits) {
    float a = toFloat(uint16_t(bits)), b = toFloat(uint16_t(bits + 1));
    float middle = float((double(a) + double(b)) / 2);
    uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    bool isRight = fromFloat(middle) == even && fromFloat(std::nextafter(middle, 0.0f)) == bits &&
                   fromFloat(std::nextafter(middle, INFINITY)) == bits + 1 &&
                   fromFloat(-middle) == (even | 0x8000u);
    if (!isRight)
      FAIL("between ", bits, " and ", bits + 1);
  }
}

TEST_CASE("f16 rounds to nearest, and to even in the middle") {
  checkRounding(0x7bff, f16ToF32, f32ToF16);
}

TEST_CASE("bf16 rounds to nearest, and to even in the middle") {
  // From 0x80 on the neighbours' middle is an f32 of its own; below, f32 is subnormal too.
  checkRounding(0x7f7f, bf16ToF32, f32ToBf16);
}

TEST_CASE("values too large for f16 become infinite from half a step above the largest on") {
  CHECK(f32ToF16(65504.0f) == 0x7bff);
  CHECK(f32ToF16(65519.996f) == 0x7bff);
  CHECK(f32ToF16(65520.0f) == 0x7c00);
  CHECK(f32ToF16(-1e30f) == 0xfc00);
  CHECK(f32ToF16(std::numeric_limits<float>::infinity()) == 0x7c00);
}

TEST_CASE("zeros keep their sign and f32's subnormal numbers vanish in f16") {
  CHECK(f32ToF16(0.0f) == 0);
  CHECK(f32ToF16(-0.0f) == 0x8000);
  CHECK(f32ToF16(std::numeric_limits<float>::denorm_min()) == 0);
  CHECK(f32ToF16(0x1p-25f) == 0); // Half the smallest; the even neighbour is 0.
  CHECK(f32ToF16(std::nextafter(0x1p-25f, 1.0f)) == 1);
}

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
                               std::bit_cast<uint32_t>(f16ToF32(static_cast<uint16_t>(bits)));
  }
  CHECK(allEqual);
}

TEST_CASE("F16 infinities and NaNs keep their kind") {
  CHECK(f16ToF32(0x7c00) == std::numeric_limits<float>::infinity());
  CHECK(f16ToF32(0xfc00) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(f16ToF32(0x7e00)));
  CHECK(std::bit_cast<uint32_t>(f16ToF32(0x7c01)) == 0x7fc02000); // Quiet, with its payload.
}

TEST_CASE("BF16 keeps sign, exponent and fraction bits") {
  bool allEqual = true;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    allEqual =
        allEqual && std::bit_cast<uint32_t>(bf16ToF32(static_cast<uint16_t>(bits))) == bits << 16;
  CHECK(allEqual);
}
