// Experts that are read before anybody has asked for them.
#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"
#include "tests/unit/policy/AllCacheRules.h"
#include "tests/unit/support/CountAllocations.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>

using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

/// Three layers of eight records of two pages; a layer keeps two of them.
struct PrefetchingCache {
  explicit PrefetchingCache(uint64_t staging = 8, uint32_t maxReads = 64)
      : queue(model.file, maxReads), test(model, queue, {4, 4, 4}, staging) {}

  /// Everything that is under way arrives.
  void arrive() {
    for (int i = 0; i < 4; ++i) {
      queue.eager = 64;
      REQUIRE(test.cache->advance().isOk());
    }
    queue.eager = 0;
  }

  const CacheCounts &stats() const { return test.cache->passCounts(); }
  uint64_t offsetOf(uint32_t layer, uint32_t expert) const {
    return model.records[layer][expert].fileOffset;
  }

  FakeModel model{std::vector<std::vector<uint64_t>>(3, std::vector<uint64_t>(8, 2))};
  FakeReadQueue queue;
  CacheUnderTest test;
};

} // namespace

TEST_CASE("a prefetch that comes true is there when its layer is executed") {
  PrefetchingCache cache;
  cache.test.prefetch(1, {3, 4});
  cache.test.runPass(0, {0});
  cache.arrive();
  CHECK(cache.stats().prefetchesRead == 2);
  CHECK(cache.stats().bytesRead == 3 * 2 * kBlock);
  CHECK(cache.stats().prefetchBytes == 2 * 2 * kBlock);
  size_t submitted = cache.queue.submitted;
  cache.test.runPass(1, {4, 3});
  CHECK(cache.queue.submitted == submitted);
  CHECK(cache.stats().hits == 0);
  CHECK(cache.stats().misses == 2);
  CHECK(cache.stats().useful == 2);
  CHECK(cache.stats().ready == 2);
  CHECK(cache.stats().stalled == 0);
  CHECK(cache.stats().bytesRead == 0);
  CHECK(cache.test.cache->prefetchPages() == 0);
  CHECK(cache.test.readyIn(1) == Experts{3, 4});
}

TEST_CASE("a prefetch that is still being read is waited for as the demand's own reads") {
  PrefetchingCache cache;
  cache.test.prefetch(1, {3});
  cache.test.runPass(0, {0});
  REQUIRE(cache.queue.readsUnderWay() == 1);
  cache.test.runPass(1, {3});
  CHECK(cache.stats().useful == 1);
  CHECK(cache.stats().ready == 0);
  CHECK(cache.stats().stalled == 1);
  CHECK(cache.queue.submitted == 2);
}

TEST_CASE("a prefetched expert that would leave memory stays for its layer and is not read again") {
  FakeModel model(std::vector<std::vector<uint64_t>>(3, std::vector<uint64_t>(8, 2)));
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {2, 2, 2}, 8, kBlock, monotonicNs,
                      {EvictionPolicy::kLru, CacheSharing::kOnePool, PromptSurvival::kEverything});
  test.runPass(1, {3});
  test.runPass(2, {0});
  test.runPass(0, {0});
  test.prefetch(1, {3});
  test.runPass(0, {1}); // The pool's least recently used one leaves.
  CHECK(test.cache->passCounts().prefetchesRead == 0);
  CHECK(test.cache->passCounts().prefetchesRetained == 1);
  CHECK(test.cache->passCounts().evictions == 1);
  CHECK(test.cache->passCounts().bytesRead == 2 * kBlock);
  CHECK(test.readyIn(1).empty());
  CHECK(test.cache->prefetchPages() == 2);
  const size_t submitted = queue.submitted;
  test.runPass(1, {3}); // execute() compares the bytes.
  CHECK(queue.submitted == submitted);
  CHECK(test.cache->passCounts().misses == 1);
  CHECK(test.cache->passCounts().ready == 1);
  CHECK(test.cache->passCounts().useful == 1);
}

TEST_CASE("a prefetch is not in memory until it is wanted") {
  PrefetchingCache cache;
  cache.test.prefetch(1, {3});
  cache.test.runPass(0, {0});
  cache.arrive();
  CHECK(cache.test.cache->prefetchPages() == 2);
  CHECK(cache.test.readyIn(1).empty());
  CHECK(cache.test.cache->pagesHeld(1) == 0);
}

TEST_CASE("a cancelled prefetch gives its pages back, one that is being read when it arrives") {
  PrefetchingCache cache;
  cache.test.prefetch(1, {3, 4});
  cache.test.runPass(0, {0});
  REQUIRE(cache.queue.readsUnderWay() == 2);
  REQUIRE(cache.test.cache->beginLayer(1, {Experts{5}}).isOk());
  CHECK(cache.test.cache->prefetchPages() == 4);
  CHECK(cache.test.cache->nextReady().value() == 0);
  CHECK(cache.test.cache->release(0).isOk());
  CHECK(cache.test.cache->endLayer().isOk());
  cache.arrive();
  CHECK(cache.test.cache->prefetchPages() == 0);
  cache.test.runPass(2, {0});
  CHECK(cache.test.cache->totalCounts().cancelled == 2);
  CHECK(cache.test.cache->totalCounts().useful == 0);
}

TEST_CASE("prefetches wait until every demanded read has been begun") {
  PrefetchingCache cache(8, 3);
  cache.test.prefetch(1, {3, 4});
  REQUIRE(cache.test.cache->beginLayer(0, {Experts{0, 1, 2, 5}}).isOk());
  CHECK(cache.queue.readsUnderWay() == 3);
  CHECK(cache.stats().prefetchesRead == 0);
  cache.queue.eager = 1; // The fourth begins, and no prefetch has a place.
  REQUIRE(cache.test.cache->advance().isOk());
  CHECK(cache.stats().prefetchesRead == 0);
  REQUIRE(cache.test.cache->nextReady().value() >= 0);
  CHECK(cache.stats().prefetchesRead == 1);
}

TEST_CASE("no more prefetches are under way than the configuration allows") {
  for (uint32_t most : {0, 1, 2, 3}) {
    PrefetchingCache cache(12);
    cache.test.config.prefetchesUnderWay = most;
    cache.test.cache = ExpertCache::create(cache.test.config, cache.queue).value();
    cache.test.prefetch(1, {3, 4, 5, 6});
    cache.test.runPass(0, {0});
    CHECK(cache.queue.readsUnderWay() == most);
    cache.arrive();
    CHECK(cache.test.cache->prefetchPages() == (most == 0 ? 0 : 8));
  }
}

TEST_CASE("what leaves anyway leaves early where a prefetch needs its pages") {
  PrefetchingCache cache(4);
  cache.test.runPass(0, {0, 1});
  cache.test.prefetch(1, {3, 4});
  REQUIRE(cache.test.cache->beginLayer(0, {Experts{2, 3}}).isOk()); // All staging pages at first.
  cache.queue.eager = 2;
  for (int executed = 0; executed < 2; ++executed)
    REQUIRE(cache.test.cache->release(cache.test.cache->nextReady().value()).isOk());
  CHECK(cache.stats().prefetchesRead == 2);
  REQUIRE(cache.test.cache->endLayer().isOk());
  CHECK(cache.test.readyIn(0) == Experts{2, 3});
}

TEST_CASE("a prefetch that cannot be read is read again when it is wanted") {
  for (bool failsEarly : {true, false}) {
    PrefetchingCache cache;
    cache.test.prefetch(1, {3});
    cache.test.runPass(0, {0});
    REQUIRE(cache.queue.readsUnderWay() == 1);
    cache.queue.failPending(0);
    if (failsEarly)
      cache.arrive();
    cache.test.runPass(1, {3, 4});
    CHECK(cache.stats().misses == 2);
    CHECK(cache.stats().useful == (failsEarly ? 0 : 1));
    CHECK(cache.queue.submitted == 4);
    CHECK(cache.test.readyIn(1) == Experts{3, 4});
  }
}

TEST_CASE("a prefetch that cannot be begun is no error, a demand is") {
  PrefetchingCache cache;
  cache.test.prefetch(1, {3});
  cache.queue.submitsUntilError = 1;
  cache.test.runPass(0, {0});
  CHECK(cache.test.cache->prefetchPages() == 0);
  cache.queue.submitsUntilError = 0;
  CHECK(cache.test.cache->beginLayer(1, {Experts{3}}).message() ==
        "layer 4 expert 3: fake: submit refused");
}

TEST_CASE("bytes of a prefetch are checked when they are handed out") {
  PrefetchingCache cache;
  cache.test.prefetch(1, {3});
  cache.model.file[cache.offsetOf(1, 3)] ^= std::byte(1);
  cache.test.runPass(0, {0});
  cache.arrive();
  REQUIRE(cache.test.cache->beginLayer(1, {Experts{3}}).isOk());
  CHECK(cache.test.cache->nextReady().status().message().find("slice 0 has checksum") !=
        std::string::npos);
}

TEST_CASE("a pass that fails and a new prompt let go all prefetches") {
  for (bool fails : {true, false}) {
    PrefetchingCache cache;
    cache.test.prefetch(2, {3, 4});
    cache.test.runPass(0, {0});
    REQUIRE(cache.queue.readsUnderWay() == 2);
    if (fails) {
      cache.queue.failingOffset = cache.offsetOf(1, 0);
      REQUIRE(cache.test.cache->beginLayer(1, {Experts{0}}).isOk());
      CHECK_FALSE(cache.test.cache->nextReady().isOk());
    } else {
      CHECK(cache.test.cache->beginPrompt().isOk());
    }
    CHECK(cache.queue.readsUnderWay() == 0);
    CHECK(cache.test.cache->prefetchPages() == 0);
    cache.test.runPass(2, {3});
    CHECK(cache.stats().useful == 0);
  }
}

TEST_CASE("a cache may end while prefetches are being read") {
  PrefetchingCache cache;
  cache.test.prefetch(1, {3, 4});
  cache.test.runPass(0, {0});
  REQUIRE(cache.queue.readsUnderWay() == 2);
  cache.test.cache.reset();
  CHECK(cache.queue.readsUnderWay() == 0);
}

/// Prefetches at random for the layers after this one, and lets the disk work and fail at random.
static void prefetchAtRandom(CacheUnderTest &test, FakeReadQueue &queue, uint32_t layer,
                             uint32_t experts, std::mt19937 &random) {
  for (uint32_t later = layer + 1; later < test.layers.size(); ++later)
    if (random() % 3)
      test.prefetch(later, someExperts(random, experts, 6));
  for (uint32_t i = random() % 3; i > 0; --i) {
    queue.eager = random() % 3;
    if (queue.readsUnderWay() > 0 && random() % 8 == 0)
      queue.failPending(random() % queue.readsUnderWay());
    REQUIRE(test.cache->advance().message() == "");
  }
}

/// Layer passes with up to two experts in use, whose bytes are theirs; nobody has more than it may.
static void executeLoosely(CacheUnderTest &test, uint32_t layer, const Experts &wanted,
                           std::mt19937 &random) {
  uint64_t poolPages = test.config.pool.size() / test.config.pageBytes;
  auto checkPages = [&] {
    uint64_t pages = test.cache->prefetchPages();
    REQUIRE(pages <= test.config.stagingPages);
    for (uint32_t l = 0; l < test.layers.size(); ++l)
      pages += test.cache->pagesHeld(l);
    REQUIRE(pages <= poolPages);
  };
  REQUIRE(test.cache->beginLayer(layer, {wanted}).message() == "");
  int before = -1;
  for (bool isOver = false; !isOver;) {
    checkPages();
    Result<int> index = test.cache->nextReady();
    REQUIRE(index.status().message() == "");
    isOver = *index < 0;
    if (random() % 2)
      REQUIRE(test.cache->advance().message() == "");
    if (before >= 0) {
      uint32_t expert = wanted[static_cast<size_t>(before)];
      REQUIRE(test.model.shows(test.cache->bytes(before), layer, expert));
      REQUIRE(test.cache->release(before).message() == "");
    }
    before = *index;
  }
  REQUIRE(test.cache->endLayer().message() == "");
  checkPages();
}

TEST_CASE("whatever is prefetched and whenever it arrives, the same experts are hits and stay") {
  for (const CacheRules &rules : allRules())
    for (uint32_t seed = 0; seed < 12; ++seed) {
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      CAPTURE(seed);
      std::mt19937 random(seed);
      std::vector<std::vector<uint64_t>> sizes(4, std::vector<uint64_t>(10));
      for (auto &layer : sizes)
        for (uint64_t &blocks : layer)
          blocks = seed % 2 ? 3 : 1 + random() % 6;
      FakeModel model(sizes);
      FakeReadQueue queue(model.file, 1 + random() % 6), plainQueue(model.file);
      queue.choose = [&](size_t) { return random(); };
      std::vector<uint64_t> quotas{12, 20, 9, random() % 20};
      uint64_t staging = 12 + random() % 20;
      CacheUnderTest test(model, queue, quotas, staging, kBlock, monotonicNs, rules);
      CacheUnderTest plain(model, plainQueue, quotas, staging, kBlock, monotonicNs, rules);
      for (uint32_t turn = 0; turn < 120; ++turn) {
        uint32_t layer = turn % 4;
        prefetchAtRandom(test, queue, layer, 10, random);
        queue.eager = random() % 3;
        Experts wanted = someExperts(random, 10, turn % 11 == 0 ? 10 : 4);
        executeLoosely(test, layer, wanted, random);
        plain.runPass(layer, wanted);
        const CacheCounts &stats = test.cache->passCounts(), &expected = plain.cache->passCounts();
        REQUIRE(stats.hits == expected.hits);
        REQUIRE(stats.misses == expected.misses);
        REQUIRE(stats.evictions == expected.evictions);
        REQUIRE(stats.ready >= stats.hits);
        REQUIRE(stats.ready <= stats.hits + stats.useful);
        for (uint32_t l = 0; l < 4; ++l)
          REQUIRE(test.readyIn(l) == plain.readyIn(l));
      }
      REQUIRE(test.cache->beginPrompt().isOk());
      REQUIRE(plain.cache->beginPrompt().isOk());
      test.runPass(0, {0}); // Counts what the prompt let go.
      const CacheCounts &total = test.cache->totalCounts();
      CHECK(total.useful > 0);
      CHECK(test.cache->state().forbiddenEvents() == 0);
      CHECK(total.prefetchesRead + total.prefetchesRetained == total.useful + total.cancelled);
    }
}

TEST_CASE("prefetching allocates nothing") {
  FakeModel model(std::vector<std::vector<uint64_t>>(4, std::vector<uint64_t>(16, 3)));
  for (const CacheRules &rules : allRules())
    for (uint32_t underWay : {kMostPrefetchReads, 64u}) {
      FakeReadQueue queue(model.file, 2 * underWay);
      CacheUnderTest test(model, queue, {12, 6, 6, 12}, 18, kBlock, monotonicNs, rules, underWay);
      std::mt19937 random(9);
      std::vector<Experts> wanted;
      for (int i = 0; i < 60; ++i)
        wanted.push_back(someExperts(random, 16, 8));
      uint64_t before = allocationsSoFar();
      bool isOk = true;
      for (size_t i = 0; i + 3 < wanted.size(); ++i) {
        for (uint32_t ahead = 1; ahead <= 3; ++ahead)
          test.prefetch((i + ahead) % 4, wanted[i + ahead]);
        queue.eager = i % 3;
        isOk = isOk && test.cache->advance().isOk();
        isOk = isOk && test.cache->beginLayer(i % 4, {wanted[i]}).isOk();
        for (int index; (index = test.cache->nextReady().value()) >= 0;)
          isOk = isOk && test.cache->release(index).isOk();
        isOk = isOk && test.cache->endLayer().isOk();
      }
      uint64_t after = allocationsSoFar();
      CHECK(isOk);
      CHECK(test.cache->totalCounts().prefetchesRead > 0);
      CHECK(after == before);
    }
}
