#include "runtime/policy/CacheAllotment.h"

#include <doctest/doctest.h>

using namespace moert;

static CacheShape tenLayers() {
  CacheShape shape;
  shape.layers.assign(10, {.experts = 32, .recordPages = 3, .topK = 4});
  return shape;
}

TEST_CASE("the smallest pool is all transit") {
  CacheAllotment allotment = allotCache(tenLayers(), 3);
  CHECK(allotment.transitPages == 3);
  CHECK(allotment.totalPages() == 3);
}

TEST_CASE("a pool that holds every record has full quotas and no transit pages") {
  CacheAllotment allotment = allotCache(tenLayers(), 10 * 32 * 3 + 7);
  CHECK(allotment.transitPages == 0);
  CHECK(allotment.totalPages() == 10 * 32 * 3);
}

TEST_CASE("no pool is exceeded and the layer being played can hold its working records") {
  CacheShape shape = tenLayers();
  for (uint64_t pool = 3; pool <= 10 * 32 * 3; ++pool) {
    CacheAllotment allotment = allotCache(shape, pool);
    REQUIRE(allotment.totalPages() <= pool);
    REQUIRE(allotment.totalPages() + 2 >= pool - pool % 3);
    for (uint32_t quota : allotment.quotaPages) {
      REQUIRE(quota % 3 == 0);
      if (pool >= 12)
        REQUIRE(quota + allotment.transitPages >= 12);
      REQUIRE(quota + allotment.transitPages >= 3);
    }
  }
}

TEST_CASE(
    "layers of different record sizes share evenly by records and never get more than they have") {
  CacheShape shape;
  shape.layers = {{2, 5, 2}, {8, 1, 2}};
  CacheAllotment allotment = allotCache(shape, 17);
  CHECK(allotment.quotaPages[0] == 10);
  CHECK(allotment.transitPages == 5); // 17 pages cannot give both layers two of the large records.
  CHECK(allotment.quotaPages[1] == 2);
}

TEST_CASE("layers of more than 2^32 pages get their quotas") {
  CacheShape shape;
  shape.layers.assign(2, {.experts = 65536, .recordPages = 65536, .topK = 1});
  CacheAllotment allotment = allotCache(shape, 4 * 65536);
  CHECK(allotment.quotaPages == std::vector<uint32_t>{2 * 65536, 2 * 65536});
}
