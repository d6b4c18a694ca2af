#include "compiler/quantize/HalfFloat.h"
#include "compiler/import/StoredType.h"

#include <cmath>
#include <doctest/doctest.h>
#include <limits>

using namespace moec;

TEST_CASE("every f16 comes back from f32 as it was") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = f16ToF32(static_cast<uint16_t>(bits));
    if (std::isnan(value))
      CHECK(std::isnan(f16ToF32(f32ToF16(value))));
    else
      REQUIRE(f32ToF16(value) == bits);
  }
}

TEST_CASE("f16 rounds to the nearest, ties to even, between every two neighbours") {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    float low = f16ToF32(static_cast<uint16_t>(bits)),
          high = f16ToF32(static_cast<uint16_t>(bits + 1));
    float middle = (low + high) / 2; // Exact: f32 has the bits.
    REQUIRE(f32ToF16(middle) == (bits % 2 == 0 ? bits : bits + 1));
    REQUIRE(f32ToF16(std::nextafter(middle, low)) == bits);
    REQUIRE(f32ToF16(std::nextafter(middle, high)) == bits + 1);
    REQUIRE(f32ToF16(-high) == (0x8000 | (bits + 1)));
  }
}

TEST_CASE("f16 ends at 65504: from 65520 on it is infinity, half of the least subnormal is zero") {
  CHECK(f32ToF16(65519.0f) == 0x7bff);
  CHECK(f32ToF16(65520.0f) == 0x7c00);
  CHECK(f32ToF16(1e30f) == 0x7c00);
  CHECK(f32ToF16(0x1p-25f) == 0);
  CHECK(f32ToF16(0x1.000002p-25f) == 1);
  CHECK(f32ToF16(1e-40f) == 0);
}

TEST_CASE("bf16 is the upper half, rounded to nearest even") {
  CHECK(f32ToBf16(1.0f) == 0x3f80);
  CHECK(f32ToBf16(std::bit_cast<float>(0x3f808000u)) == 0x3f80);
  CHECK(f32ToBf16(std::bit_cast<float>(0x3f818000u)) == 0x3f82);
  CHECK(f32ToBf16(std::bit_cast<float>(0x3f808001u)) == 0x3f81);
  CHECK(std::isnan(bf16ToF32(f32ToBf16(std::numeric_limits<float>::quiet_NaN()))));
}
