#include "runtime/base/CheckedMath.h"

#include <cstdint>
#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("a range that would wrap around does not fit") {
  CHECK(rangeFits(10, 6, 16));
  CHECK(rangeFits(16, 0, 16));
  CHECK_FALSE(rangeFits(10, 7, 16));
  CHECK_FALSE(rangeFits(17, 0, 16));
  CHECK_FALSE(rangeFits(16, UINT64_MAX, 32));
}

TEST_CASE("overflow is reported, never wrapped") {
  CHECK(checkedAdd(UINT64_MAX - 1, 1) == UINT64_MAX);
  CHECK_FALSE(checkedAdd(UINT64_MAX, 1));
  CHECK_FALSE(checkedMultiply(uint64_t(1) << 32, uint64_t(1) << 32));
  CHECK(checkedRoundUp(4097, 4096) == 8192);
  CHECK_FALSE(checkedRoundUp(UINT64_MAX - 5, 4096));
}
