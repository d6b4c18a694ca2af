// A cache that continues with another pool.
#include "runtime/experts/ExpertCache.h"

#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"
#include "tests/unit/policy/AllCacheRules.h"

#include <cstring>
#include <doctest/doctest.h>
#include <random>

using namespace moert;

using Experts = std::vector<uint32_t>;

namespace {

FakeModel evenModel(size_t layers) {
  return FakeModel(std::vector<std::vector<uint64_t>>(layers, std::vector<uint64_t>(8, 3)));
}

/// Gives the cache other quotas and a pool of just their pages: the same memory, cut, or, if it is
/// larger, a copy at another place.
void resize(CacheUnderTest &test, const std::vector<uint64_t> &quotas) {
  uint64_t pages = test.config.stagingPages;
  for (size_t layer = 0; layer < quotas.size(); ++layer)
    pages += test.layers[layer].quotaPages = quotas[layer];
  const uint64_t bytes = pages * kBlock, before = test.config.pool.size();
  REQUIRE(test.cache->quiesce().message() == "");
  HostRegion next;
  if (bytes > before) {
    next = HostRegion::create(bytes).value();
    std::memcpy(next.data(), test.config.pool.data(), before);
    std::memset(test.config.pool.data(), 0xee, before);
  }
  test.config.pool = bytes > before ? next.span().first(bytes) : test.config.pool.first(bytes);
  REQUIRE(test.cache->reconfigure(test.config).message() == "");
  if (bytes > before)
    test.pool = std::move(next);
  else // Nobody needs what was cut off.
    std::memset(test.pool.data() + bytes, 0xee, test.pool.bytes() - bytes);
}

} // namespace

TEST_CASE("experts that stay are moved into a smaller pool, and none is read again") {
  FakeModel model = evenModel(2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {12, 12}, 3);
  test.runPass(0, {0, 1, 2, 3});
  test.runPass(1, {4, 5, 6, 7});
  resize(test, {3, 6});
  CHECK(test.readyIn(0) == Experts{0}); // The most popular of a pass stay.
  CHECK(test.readyIn(1) == Experts{4, 5});
  const size_t reads = queue.submitted;
  test.runPass(0, {0});
  test.runPass(1, {4, 5});
  CHECK(queue.submitted == reads);
  CHECK(test.cache->totalCounts().hits == 3);
}

TEST_CASE("experts are where they were in a larger pool, though it moved") {
  FakeModel model = evenModel(2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {3, 6}, 3);
  test.runPass(0, {2});
  test.runPass(1, {4, 5});
  resize(test, {24, 24});
  const size_t reads = queue.submitted;
  test.runPass(0, {2});
  test.runPass(1, {5, 4});
  CHECK(queue.submitted == reads);
  test.runPass(0, {0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(test.readyIn(0).size() == 8);
}

TEST_CASE("a prefetch under way has ended before the pool changes") {
  FakeModel model = evenModel(2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {3, 3}, 6);
  test.prefetch(1, {6});
  test.runPass(0, {0});
  REQUIRE(queue.readsUnderWay() == 1);
  resize(test, {0, 3});
  CHECK(queue.readsUnderWay() == 0);
  CHECK(test.cache->prefetchPages() == 0);
  test.runPass(1, {6, 1});
  CHECK(test.cache->passCounts().misses == 2);
  CHECK(test.cache->passCounts().cancelled == 1); // It counts with the next layer pass.
}

TEST_CASE("after any changes of the pool every expert handed out is the right one") {
  FakeModel model = evenModel(3);
  std::mt19937 random(11);
  for (const CacheRules &rules : allRules()) {
    FakeReadQueue queue(model.file);
    queue.choose = [&](size_t) { return random(); };
    CacheUnderTest test(model, queue, {9, 9, 9}, 6, kBlock, monotonicNs, rules);
    for (uint32_t step = 0; step < 120; ++step) {
      test.prefetch((step + 1) % 3, someExperts(random, 8, 3));
      test.runPass(step % 3, someExperts(random, 8, 4)); // Compares every byte.
      if (step % 10 == 9) {
        std::vector<uint64_t> quotas;
        for (int layer = 0; layer < 3; ++layer)
          quotas.push_back(random() % 25);
        resize(test, quotas);
        test.config.rules = allRules()[random() % allRules().size()];
      }
    }
    CHECK(test.cache->state().forbiddenEvents() == 0);
  }
}

TEST_CASE("a configuration that cannot work is refused, and the cache works on as before") {
  FakeModel model = evenModel(1);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {6}, 3);
  test.runPass(0, {1, 2});
  CacheConfig config = test.config;
  config.pool = config.pool.first(5 * kBlock);
  const Status refused = test.cache->reconfigure(config);
  CHECK(refused.code() == StatusCode::kInvalidInput);
  CHECK(refused.message().find("has 5 pages") != std::string::npos);
  CHECK(test.readyIn(0) == Experts{1, 2});
  test.runPass(0, {1, 2, 3});
  CHECK(test.cache->passCounts().hits == 2);
}

TEST_CASE("during a layer pass the pool cannot change") {
  FakeModel model = evenModel(1);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {6}, 3);
  REQUIRE(test.cache->beginLayer(0, {Experts{1}}).isOk());
  CHECK(test.cache->reconfigure(test.config).message() ==
        "m.moe: quiesce during a pass of a layer");
  CHECK(test.cache->nextReady().value() == 0);
  CHECK(model.shows(test.cache->bytes(0), 0, 1));
}

TEST_CASE("a queue that breaks while the cache waits for it is the error of the change") {
  FakeModel model = evenModel(2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {3, 3}, 6);
  test.prefetch(1, {6});
  test.runPass(0, {0});
  queue.isBroken = true;
  CHECK(test.cache->reconfigure(test.config).message() == "fake: broken");
  queue.landAll();
}
