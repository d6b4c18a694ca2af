// Experts with separate copies of low and of high precision. Records of 8 blocks: a low copy of 3
// blocks, and after it a high one of two slices, of 3 blocks and of 2. With pages of 2 blocks the
// high copy begins in the middle of a page.
#include "runtime/experts/ExpertCache.h"

#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"

#include <doctest/doctest.h>

using namespace moert;

using Experts = std::vector<uint32_t>;
using Slices = std::vector<uint16_t>;

namespace {

RecordCut cutOf(uint32_t, uint64_t) {
  return {{3, 6, 8}, 1};
}

struct CopiesCache {
  /// Quota and staging pages have room for so many blocks.
  explicit CopiesCache(uint64_t pageBytes = kBlock, uint64_t quotaBlocks = 20,
                       uint64_t stagingBlocks = 8)
      : model({std::vector<uint64_t>(8, 8)}, cutOf), queue(model.file),
        test(model, queue, {quotaBlocks * kBlock / pageBytes}, stagingBlocks * kBlock / pageBytes,
             pageBytes) {}

  Slices runPass(const Experts &wanted, const Slices &slices) {
    return test.runPass(0, wanted, slices);
  }
  const CacheCounts &counts() const { return test.cache->passCounts(); }

  FakeModel model;
  FakeReadQueue queue;
  CacheUnderTest test;
};

} // namespace

TEST_CASE("the bytes of one copy are read, and a low copy leaves where the high one is demanded") {
  for (uint64_t pageBytes : {kBlock, 2 * kBlock, 4 * kBlock}) {
    CAPTURE(pageBytes);
    CopiesCache cache(pageBytes);
    CHECK(cache.runPass({5, 6}, {1, 3}) == Slices{1, 3});
    CHECK(cache.counts().bytesRead == (3 + 5) * kBlock);
    CHECK(cache.runPass({5, 6}, {1, 1}) == Slices{1, 3}); // What is there is used.
    CHECK(cache.counts().hits == 2);
    CHECK(cache.counts().bytesRead == 0);
    CHECK(cache.runPass({5}, {2}) == Slices{2});
    CHECK(cache.counts().bytesRead == 3 * kBlock);
    CHECK(cache.counts().misses == 1);
    CHECK(cache.counts().evictions == 1); // The low copy.
    CHECK(cache.runPass({5}, {3}) == Slices{3});
    CHECK(cache.counts().bytesRead == 2 * kBlock);
    CHECK(cache.counts().evictions == 0);
    const uint64_t copyPages = (8 * kBlock + pageBytes - 1) / pageBytes - 3 * kBlock / pageBytes;
    CHECK(cache.test.cache->pagesHeld(0) == 2 * copyPages);
  }
}

TEST_CASE("a wrong byte in one copy is an error when that copy is read, and not before") {
  CopiesCache cache(2 * kBlock);
  const uint64_t record = cache.model.records[0][5].fileOffset;
  cache.model.file[record] ^= std::byte(1);
  CHECK(cache.runPass({5}, {2}) == Slices{2});
  CHECK(cache.runPass({5}, {1}) == Slices{2});
  cache.model.file[record + 6 * kBlock] ^= std::byte(1); // In the slice that is lacking.
  REQUIRE(cache.test.cache->beginLayer(0, {.wanted = Experts{5}, .slices = Slices{3}}).isOk());
  CHECK(cache.test.cache->nextReady().status().message().find(
            "layer 3 expert 5: slice 2 has checksum") != std::string::npos);
  REQUIRE(cache.test.cache->beginLayer(0, {.wanted = Experts{5}, .slices = Slices{1}}).isOk());
  CHECK(cache.test.cache->nextReady().status().message().find(
            "layer 3 expert 5: slice 0 has checksum") != std::string::npos);
}

TEST_CASE("an expert that changes its copy is checked anew") {
  CopiesCache cache;
  cache.runPass({5}, {1});
  cache.model.file[cache.model.records[0][5].fileOffset + 3 * kBlock] ^= std::byte(1);
  REQUIRE(cache.test.cache->beginLayer(0, {.wanted = Experts{5}, .slices = Slices{2}}).isOk());
  CHECK(cache.test.cache->nextReady().status().message().find(
            "layer 3 expert 5: slice 1 has checksum") != std::string::npos);
}

TEST_CASE("the larger copy has to fit, not both") {
  CopiesCache cache(kBlock, 0, 5);
  CHECK(cache.runPass({1, 2, 3}, {3, 1, 2}) == Slices{3, 1, 2});
  CacheConfig config = cache.test.config;
  config.stagingPages = 4;
  CHECK(ExpertCache::create(config, cache.queue).status().message() ==
        "m.moe: layer 3 has 0 pages and 4 in staging, its largest record needs 5");
}

TEST_CASE("a low copy without another one is refused") {
  CopiesCache cache;
  cache.model.records[0][7].lowCopySlices = 3;
  CHECK(ExpertCache::create(cache.test.config, cache.queue).status().message() ==
        "m.moe: layer 3 expert 7: the low copy has 3 of 3 slices, expected fewer");
}

TEST_CASE("copies move with their pages to a smaller pool and to a larger one") {
  for (uint64_t pageBytes : {kBlock, 2 * kBlock}) {
    CAPTURE(pageBytes);
    CopiesCache cache(pageBytes);
    cache.runPass({1, 2, 3, 4}, {3, 1, 3, 1});
    cache.runPass({2, 3}, {1, 3});
    const uint64_t all = cache.test.layers[0].quotaPages;
    cache.test.layers[0].quotaPages = 10 * kBlock / pageBytes;
    CacheConfig config = cache.test.config;
    const uint64_t pages = cache.test.layers[0].quotaPages + config.stagingPages;
    config.pool = config.pool.first(pages * pageBytes);
    REQUIRE(cache.test.cache->reconfigure(config).isOk());
    CHECK(cache.test.readyIn(0) == Experts{2, 3});
    CHECK(cache.runPass({2, 3}, {1, 3}) == Slices{1, 3});
    CHECK(cache.counts().bytesRead == 0);
    cache.test.layers[0].quotaPages = all;
    REQUIRE(cache.test.cache->reconfigure(cache.test.config).isOk());
    CHECK(cache.runPass({2, 3}, {3, 1}) == Slices{3, 3});
    CHECK(cache.counts().bytesRead == 5 * kBlock);
  }
}
