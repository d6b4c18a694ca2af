#include "runtime/policy/CacheAllotment.h"

#include <doctest/doctest.h>

using namespace moert;

constexpr uint32_t kPage = 4096;

// Experts that all have records of so many pages.
static CacheShape::Layer layerOf(uint32_t experts, uint32_t recordPages, uint32_t topK) {
  return cacheLayerOf(std::vector<uint64_t>(experts, uint64_t(recordPages) * kPage), kPage, topK);
}

static CacheShape tenLayers() {
  CacheShape shape;
  shape.layers.assign(10, layerOf(32, 3, 4));
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
  shape.layers = {layerOf(2, 5, 2), layerOf(8, 1, 2)};
  CacheAllotment allotment = allotCache(shape, 17);
  CHECK(allotment.quotaPages[0] == 10);
  CHECK(allotment.transitPages == 5); // 17 pages cannot give both layers two of the large records.
  CHECK(allotment.quotaPages[1] == 2);
}

TEST_CASE("layers of more than 2^32 pages get their quotas") {
  CacheShape shape;
  shape.layers.assign(2, layerOf(65536, 65536, 1));
  CacheAllotment allotment = allotCache(shape, 4 * 65536);
  CHECK(allotment.quotaPages == std::vector<uint32_t>{2 * 65536, 2 * 65536});
}

TEST_CASE("a layer of different widths has the exact sum of its records' pages") {
  // 1 page and a byte, 1, 4, 3 and 3 pages.
  CacheShape::Layer layer = cacheLayerOf(
      std::vector<uint64_t>{kPage + 1, kPage, 4 * kPage, 3 * kPage, 3 * kPage}, kPage, 3);
  CHECK(layer.experts == 5);
  CHECK(layer.topK == 3);
  CHECK(layer.recordPages == 4);
  CHECK(layer.workingPages == 4 + 3 + 3);
  CHECK(layer.allPages == 2 + 1 + 4 + 3 + 3);
}

TEST_CASE("working records are never more than there are, nor than the disk needs") {
  CHECK(layerOf(2, 5, 8).workingPages == 10);
  CHECK(layerOf(60, 5, 8).workingPages == kWorkingRecords * 5);
}

TEST_CASE("layers of different widths share without exceeding the pool or what they have") {
  CacheShape shape;
  shape.layers = {cacheLayerOf(std::vector<uint64_t>{kPage, 2 * kPage, 4 * kPage}, kPage, 2),
                  cacheLayerOf(std::vector<uint64_t>{3 * kPage, 3 * kPage, kPage}, kPage, 2)};
  CHECK(largestPoolPages(shape) == 14);
  CHECK(smallestPoolPages(shape) == 4);
  for (uint64_t pool = 4; pool <= 20; ++pool) {
    CacheAllotment allotment = allotCache(shape, pool);
    CHECK(allotment.totalPages() <= pool);
    CHECK(allotment.quotaPages[0] <= 7);
    CHECK(allotment.quotaPages[1] <= 7);
    CHECK(allotment.quotaPages[0] + allotment.transitPages >= 4);
    CHECK(allotment.quotaPages[1] + allotment.transitPages >= 3);
  }
  CHECK(allotCache(shape, 14).quotaPages == std::vector<uint32_t>{7, 7});
  CHECK(allotCache(shape, 14).transitPages == 0);
}
