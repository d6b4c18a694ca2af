// Experts of which a layer pass demands the first slices only. Records of 4 blocks have slices of 3
// blocks and of 1 block; with pages of 2 blocks a page has parts of both.
#include "runtime/experts/ExpertCache.h"

#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"

#include <doctest/doctest.h>
#include <random>

using namespace moert;

using Experts = std::vector<uint32_t>;
using Slices = std::vector<uint16_t>;

namespace {

constexpr uint64_t kFirst = 3 * kBlock, kRest = kBlock;

struct SlicedCache {
  explicit SlicedCache(uint64_t pageBytes = kBlock, uint64_t experts = 3,
                       const CacheRules &rules = {})
      : model({std::vector<uint64_t>(8, 4)}), queue(model.file),
        test(model, queue, {experts * 4 * kBlock / pageBytes}, 4 * kBlock / pageBytes, pageBytes,
             monotonicNs, rules) {}

  Slices runPass(const Experts &wanted, const Slices &slices) {
    return test.runPass(0, wanted, slices);
  }
  const CacheCounts &counts() const { return test.cache->passCounts(); }

  FakeModel model;
  FakeReadQueue queue;
  CacheUnderTest test;
};

} // namespace

TEST_CASE("only the slices that are demanded are read, and later those that are lacking") {
  for (uint64_t pageBytes : {kBlock, 2 * kBlock, 4 * kBlock}) {
    CAPTURE(pageBytes);
    SlicedCache cache(pageBytes);
    CHECK(cache.runPass({5, 6}, {1, 2}) == Slices{1, 2});
    CHECK(cache.counts().bytesRead == kFirst + kFirst + kRest);
    CHECK(cache.counts().misses == 2);
    CHECK(cache.runPass({5, 6}, {1, 1}) == Slices{1, 2}); // What is there is used.
    CHECK(cache.counts().bytesRead == 0);
    CHECK(cache.counts().hits == 2);
    CHECK(cache.runPass({5}, {2}) == Slices{2});
    CHECK(cache.counts().bytesRead == kRest);
    CHECK(cache.counts().misses == 1);
    CHECK(cache.counts().evictions == 0);
    CHECK(cache.runPass({5}, {}) == Slices{2});
    CHECK(cache.counts().bytesRead == 0);
  }
}

TEST_CASE("slices in memory count for a miss policy, prefetches that a rule asked for in full") {
  SlicedCache cache;
  cache.runPass({5, 6}, {1, 2});
  CHECK(cache.test.cache->decisions().slicesCounted(5) == 1);
  CHECK(cache.test.cache->decisions().slicesCounted(6) == 2);
  CHECK(cache.test.cache->decisions().slicesCounted(7) == 0);
}

TEST_CASE("a wrong byte in a slice is an error when that slice is read, and not before") {
  SlicedCache cache;
  cache.model.file[cache.model.records[0][5].fileOffset + kFirst] ^= std::byte(1);
  CHECK(cache.runPass({5}, {1}) == Slices{1});
  REQUIRE(cache.test.cache->beginLayer(0, {.wanted = Experts{5}, .slices = Slices{2}}).isOk());
  const Status damaged = cache.test.cache->nextReady().status();
  CHECK(damaged.code() == StatusCode::kInvalidInput);
  CHECK(damaged.message().find("layer 3 expert 5: slice 1 has checksum") != std::string::npos);
  CHECK(cache.runPass({5}, {1}) == Slices{1}); // Read again: nothing of it is trusted.
  CHECK(cache.counts().bytesRead == kFirst);
}

TEST_CASE("a read of lacking slices that fails ends the layer pass; the next one reads all again") {
  SlicedCache cache;
  cache.runPass({5, 6}, {1, 1});
  REQUIRE(cache.test.cache->beginLayer(0, {.wanted = Experts{5, 6}}).isOk());
  cache.queue.failPending(0);
  CHECK_FALSE(cache.test.cache->nextReady().isOk());
  CHECK(cache.runPass({5, 6}, {2, 2}) == Slices{2, 2});
  CHECK(cache.test.cache->pagesHeld(0) == 8);
}

/// The first slice may be held alone.
static const CacheRules kInParts = {.baseSlices = 1};

TEST_CASE("first slices that are held alone leave room for more experts") {
  SlicedCache whole, inParts(kBlock, 3, kInParts);
  for (SlicedCache *cache : {&whole, &inParts})
    cache->runPass({1, 2, 3, 4}, {1, 1, 1, 1});
  CHECK(whole.test.readyIn(0) == Experts{1, 2, 3});
  CHECK(inParts.test.readyIn(0) == Experts{1, 2, 3, 4});
  CHECK(inParts.test.cache->pagesHeld(0) == 12);
}

TEST_CASE("upper slices leave for another expert and are read again when they are demanded") {
  SlicedCache cache(kBlock, 3, kInParts);
  cache.runPass({1, 2, 3}, {2, 2, 2});
  cache.runPass({1, 2, 3}, {1, 1, 1});
  CHECK(cache.test.cache->pagesHeld(0) == 12);
  cache.runPass({4}, {1}); // Three pages: those of the upper slices, which were used before.
  CHECK(cache.test.readyIn(0) == Experts{1, 2, 3, 4});
  CHECK(cache.test.cache->pagesHeld(0) == 12);
  CHECK(cache.counts().evictions == 0);
  CHECK(cache.test.cache->decisions().slicesCounted(1) == 1);
  CHECK(cache.runPass({1}, {1}) == Slices{1});
  CHECK(cache.counts().bytesRead == 0);
  CHECK(cache.runPass({2}, {2}) == Slices{2}); // 3 makes room: 1, 2 and 4 were used after it.
  CHECK(cache.counts().bytesRead == kRest);
  CHECK(cache.test.readyIn(0) == Experts{1, 2, 4});
}

TEST_CASE("an expert in use whose upper slices are to leave is computed with them") {
  SlicedCache cache(kBlock, 1, kInParts);
  cache.runPass({1}, {2});
  CHECK(cache.runPass({1, 2}, {1, 1}) == Slices{2, 1}); // Only one of the two can stay.
  CHECK(cache.test.readyIn(0) == Experts{1});
  CHECK(cache.test.cache->decisions().slicesCounted(1) == 1);
}

TEST_CASE("an expert leaves before the upper slices of one that was used after it") {
  SlicedCache cache(kBlock, 3, kInParts);
  cache.runPass({1, 2, 3}, {2, 2, 2});
  cache.runPass({4}, {1});
  CHECK(cache.test.readyIn(0) == Experts{1, 2, 4});
  CHECK(cache.test.cache->pagesHeld(0) == 11);
}

TEST_CASE("with other rules, experts stay in part or in whole as these have it") {
  SlicedCache cache(kBlock, 3, kInParts);
  cache.runPass({1, 2, 3}, {2, 1, 1});
  CacheConfig config = cache.test.config;
  config.rules = {};
  REQUIRE(cache.test.cache->reconfigure(config).isOk());
  CHECK(cache.test.readyIn(0) == Experts{1}); // The others have no pages for the rest.
  cache.runPass({1, 4}, {2, 1});
  config.rules = kInParts;
  REQUIRE(cache.test.cache->reconfigure(config).isOk());
  CHECK(cache.test.readyIn(0) == Experts{1, 4});
  CHECK(cache.test.cache->pagesHeld(0) == 7);
  CHECK(cache.runPass({1, 4}, {2, 2}) == Slices{2, 2});
  CHECK(cache.counts().bytesRead == kRest);
}

TEST_CASE("with a smaller quota upper slices leave first") {
  SlicedCache cache(kBlock, 3, kInParts);
  cache.runPass({1, 2, 3}, {2, 2, 2});
  cache.runPass({1, 2, 3}, {1, 1, 1});
  cache.test.layers[0].quotaPages = 10;
  REQUIRE(cache.test.cache->reconfigure(cache.test.config).isOk());
  CHECK(cache.test.readyIn(0) == Experts{1, 2, 3});
  CHECK(cache.test.cache->pagesHeld(0) == 10);
  CHECK(cache.runPass({1, 2, 3}, {1, 1, 1}) == Slices{2, 1, 1});
}

TEST_CASE("with room for one record, experts are lowered, completed and evicted in any order") {
  std::mt19937 random(7);
  for (uint32_t variant = 0; variant < 12; ++variant) {
    const CacheRules rules = variant % 2 ? kInParts : CacheRules();
    SlicedCache cache(variant < 6 ? kBlock : 2 * kBlock, variant / 2 % 3, rules);
    cache.queue.choose = [&](size_t) { return random(); };
    for (int pass = 0; pass < 300; ++pass) {
      cache.queue.eager = random() % 3;
      const Experts wanted = someExperts(random, 8, 5);
      Slices slices;
      for (size_t i = 0; i < wanted.size(); ++i)
        slices.push_back(static_cast<uint16_t>(1 + random() % 2));
      const Slices computed = cache.runPass(wanted, slices);
      for (size_t i = 0; i < wanted.size(); ++i)
        REQUIRE(computed[i] >= slices[i]);
    }
  }
}
