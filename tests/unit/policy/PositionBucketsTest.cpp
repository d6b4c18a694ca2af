#include "runtime/policy/PositionBuckets.h"

#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("an encoder's near positions have buckets of their own, later ones the second half") {
  PositionBuckets buckets;
  buckets.prepare(32, 128, true);
  CHECK(buckets.of(50, 50) == 0);
  CHECK(buckets.of(50, 43) == 7);
  CHECK(buckets.of(50, 51) == 17);
  // 8 + floor(8 * ln(16 / 8) / ln(128 / 8)) = 8 + floor(8 / 4).
  CHECK(buckets.of(50, 34) == 10);
  CHECK(buckets.of(0, 127) == 31);
  CHECK(buckets.of(0, 100000) == 31);
  CHECK(buckets.of(100000, 0) == 15);
}

TEST_CASE("a decoder's buckets are all for earlier positions") {
  PositionBuckets buckets;
  buckets.prepare(32, 128, true);
  buckets.prepare(32, 128, false);
  CHECK(buckets.of(50, 60) == 0);
  CHECK(buckets.of(50, 35) == 15);
  // 16 + floor(16 * ln(32 / 16) / ln(128 / 16)) = 16 + floor(16 / 3).
  CHECK(buckets.of(50, 18) == 21);
  CHECK(buckets.of(500, 0) == 31);
}
