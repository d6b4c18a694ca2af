#include "runtime/policy/CacheAllotment.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <vector>

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

TEST_CASE("the smallest pool is all staging") {
  CacheAllotment allotment = allotCache(tenLayers(), 3);
  CHECK(allotment.stagingPages == 3);
  CHECK(allotment.totalPages() == 3);
}

TEST_CASE("a pool that holds every record has full quotas and no staging pages") {
  CacheAllotment allotment = allotCache(tenLayers(), 10 * 32 * 3 + 7);
  CHECK(allotment.stagingPages == 0);
  CHECK(allotment.totalPages() == 10 * 32 * 3);
}

TEST_CASE("no pool is exceeded and the layer being executed can hold its working records") {
  CacheShape shape = tenLayers();
  for (uint64_t pool = 3; pool <= 10 * 32 * 3; ++pool) {
    CacheAllotment allotment = allotCache(shape, pool);
    REQUIRE(allotment.totalPages() <= pool);
    REQUIRE(allotment.totalPages() + 2 >= pool - pool % 3);
    for (uint32_t quota : allotment.quotaPages) {
      REQUIRE(quota % 3 == 0);
      if (pool >= 12)
        REQUIRE(quota + allotment.stagingPages >= 12);
      REQUIRE(quota + allotment.stagingPages >= 3);
    }
  }
}

TEST_CASE(
    "layers of different record sizes share evenly by records and never get more than they have") {
  CacheShape shape;
  shape.layers = {layerOf(2, 5, 2), layerOf(8, 1, 2)};
  CacheAllotment allotment = allotCache(shape, 17);
  CHECK(allotment.quotaPages[0] == 10);
  CHECK(allotment.stagingPages == 5); // 17 pages cannot give both layers two of the large records.
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
    CHECK(allotment.quotaPages[0] + allotment.stagingPages >= 4);
    CHECK(allotment.quotaPages[1] + allotment.stagingPages >= 3);
  }
  CHECK(allotCache(shape, 14).quotaPages == std::vector<uint32_t>{7, 7});
  CHECK(allotCache(shape, 14).stagingPages == 0);
}

namespace {

/// Layers of records of various sizes, and some plan's allotment of a pool.
struct RandomPlan {
  explicit RandomPlan(uint32_t seed) : random(seed) {
    for (uint32_t l = 1 + random() % 6; l > 0; --l) {
      std::vector<uint64_t> records(2 + random() % 12);
      for (uint64_t &bytes : records)
        bytes = (seed % 2 ? 4 : 1 + random() % 6) * kPage;
      shape.layers.push_back(cacheLayerOf(records, kPage, 1 + random() % 4));
    }
    do { // As a plan is verified: each layer can be executed.
      plan = {static_cast<uint32_t>(random() % 30), {}};
      for (const CacheShape::Layer &layer : shape.layers)
        plan.quotaPages.push_back(static_cast<uint32_t>(random() % (layer.allPages + 1)));
    } while (std::any_of(shape.layers.begin(), shape.layers.end(), [&](auto &layer) {
      size_t i = static_cast<size_t>(&layer - shape.layers.data());
      return plan.quotaPages[i] + plan.stagingPages < layer.recordPages;
    }));
  }
  std::mt19937 random;
  CacheShape shape;
  CacheAllotment plan;
};

} // namespace

TEST_CASE("a plan keeps its numbers where the pool is its own") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    RandomPlan test(seed);
    uint64_t record = smallestPoolPages(test.shape);
    for (uint64_t more : {uint64_t(0), record - 1}) {
      CacheAllotment same = adjustAllotment(test.plan, test.shape, test.plan.totalPages() + more);
      CHECK(same.stagingPages == test.plan.stagingPages);
      CHECK(same.quotaPages == test.plan.quotaPages);
    }
  }
}

TEST_CASE("whatever the pool, an adjusted plan uses all of it and every layer can be executed") {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RandomPlan test(seed);
    const std::vector<CacheShape::Layer> &layers = test.shape.layers;
    uint64_t record = smallestPoolPages(test.shape), all = largestPoolPages(test.shape);
    bool keepsNothing = test.plan.totalPages() == test.plan.stagingPages;
    for (uint64_t pool = record; pool <= all; pool += 1 + test.random() % 5) {
      CacheAllotment adjusted = adjustAllotment(test.plan, test.shape, pool);
      REQUIRE(adjusted.totalPages() <= pool);
      REQUIRE(adjusted.totalPages() + record > pool);
      for (size_t i = 0; i < layers.size(); ++i) {
        REQUIRE(adjusted.quotaPages[i] <= layers[i].allPages);
        uint64_t pages = uint64_t(adjusted.quotaPages[i]) + adjusted.stagingPages;
        REQUIRE(pages >= layers[i].recordPages);
        uint64_t planned = uint64_t(test.plan.quotaPages[i]) + test.plan.stagingPages;
        REQUIRE(pages >= std::min({layers[i].workingPages, planned, pool}));
        if (keepsNothing)
          REQUIRE(adjusted.quotaPages[i] == 0);
      }
    }
  }
}

TEST_CASE("quotas stay in proportion, and staging pages stay in a larger pool") {
  CacheShape shape = tenLayers();
  CacheAllotment plan{12, {6, 12, 18, 24, 30, 6, 12, 18, 24, 30}};
  CacheAllotment twice = adjustAllotment(plan, shape, 12 + 2 * 180);
  CHECK(twice.stagingPages == 12);
  CHECK(twice.quotaPages == std::vector<uint32_t>{12, 24, 36, 48, 60, 12, 24, 36, 48, 60});
  CacheAllotment half = adjustAllotment(plan, shape, 6 + 90);
  CHECK(half.stagingPages >= 6);
  for (size_t i = 0; i < 5; ++i)
    CHECK(half.quotaPages[i] <= plan.quotaPages[i] / 2 + 3);
}

TEST_CASE("a layer that has everything leaves its part to the others, those without a part last") {
  CacheShape shape;
  shape.layers.assign(3, layerOf(4, 1, 1));
  CacheAllotment plan{1, {2, 1, 0}};
  CHECK(adjustAllotment(plan, shape, 8).quotaPages == std::vector<uint32_t>{4, 3, 0});
  CHECK(adjustAllotment(plan, shape, 11).quotaPages == std::vector<uint32_t>{4, 4, 2});
  CHECK(adjustAllotment(plan, shape, 12).quotaPages == std::vector<uint32_t>{4, 4, 4});
  CHECK(adjustAllotment(plan, shape, 12).stagingPages == 0);
}
