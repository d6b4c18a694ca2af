#include "runtime/experts/ExpertCache.h"

#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"

#include <doctest/doctest.h>
#include <random>

using namespace moert;

using Experts = std::vector<uint32_t>;

/// Layers of `count` experts with records of `blocks` blocks.
static FakeModel evenModel(size_t layers, size_t count, uint64_t blocks) {
  return FakeModel(
      std::vector<std::vector<uint64_t>>(layers, std::vector<uint64_t>(count, blocks)));
}

TEST_CASE("experts in memory come first, then the missing ones as they arrive") {
  FakeModel model = evenModel(1, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {16}, 0);
  test.runPass(0, {5, 6});
  queue.choose = [](size_t count) { return count - 1; }; // The last submitted arrives first.
  CHECK(test.runPass(0, {1, 5, 2, 6, 3}) == Experts{5, 6, 3, 2, 1});
}

TEST_CASE("all missing experts are being read before the first one is computed") {
  FakeModel model = evenModel(1, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {4}, 8);
  test.runPass(0, {0});
  REQUIRE(test.cache->beginLayer(0, {Experts{0, 1, 2, 3, 4}}).isOk());
  CHECK(queue.readsUnderWay() == 4);
  CHECK(test.cache->nextReady().value() == 0);
  CHECK(queue.readsUnderWay() == 4);
}

TEST_CASE("with no quota and room for one record the experts pass through one after the other") {
  FakeModel model = evenModel(2, 8, 3);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {0, 0}, 3);
  CHECK(test.runPass(0, {7, 0, 3}) == Experts{7, 0, 3});
  CHECK(test.runPass(1, {7, 1}) == Experts{7, 1});
  CHECK(queue.mostUnderWay == 1);
  CHECK(test.readyIn(0).empty());
  CHECK(test.cache->totalCounts().misses == 5);
  CHECK(test.cache->totalCounts().bytesRead == 5 * 3 * kBlock);
}

TEST_CASE("the least recently used experts leave and the others are hits") {
  FakeModel model = evenModel(1, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {6}, 2);
  test.runPass(0, {0});
  test.runPass(0, {1});
  test.runPass(0, {2});
  test.runPass(0, {0});
  test.runPass(0, {3});
  CHECK(test.readyIn(0) == Experts{0, 2, 3});
  test.runPass(0, {2, 1});
  CHECK(test.cache->passCounts().hits == 1);
  CHECK(test.cache->passCounts().misses == 1);
  CHECK(test.cache->passCounts().evictions == 1);
}

TEST_CASE("of a pass that wants everything the most popular experts stay") {
  FakeModel model = evenModel(1, 8, 2);
  FakeReadQueue queue(model.file);
  std::mt19937 random(3);
  queue.choose = [&](size_t) { return random(); };
  for (uint64_t staging : {0, 2, 6}) {
    CacheUnderTest test(model, queue, {6}, staging);
    test.runPass(0, {4, 0, 6, 2, 1, 3, 5, 7});
    CHECK(test.readyIn(0) == Experts{0, 4, 6});
  }
}

TEST_CASE("a layer being executed leaves the experts of other layers alone") {
  FakeModel model = evenModel(3, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {4, 4, 4}, 4);
  test.runPass(0, {0, 1});
  test.runPass(1, {2, 3});
  test.runPass(2, {0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(test.readyIn(0) == Experts{0, 1});
  CHECK(test.readyIn(1) == Experts{2, 3});
  CHECK(test.cache->pagesHeld(2) == 4);
}

TEST_CASE("more missing experts than the queue takes at once are read all the same") {
  FakeModel model = evenModel(1, 16, 1);
  FakeReadQueue queue(model.file, 3);
  CacheUnderTest test(model, queue, {16}, 0);
  Experts all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  CHECK(test.runPass(0, all).size() == 16);
  CHECK(queue.mostUnderWay == 3);
  CHECK(test.readyIn(0) == all);
}

TEST_CASE("a pinned expert stays through passes that would drive it out") {
  FakeModel model = evenModel(1, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {6}, 2);
  REQUIRE(test.cache->pin(0, 0).isOk());
  test.runPass(0, {0});
  for (uint32_t expert : {1, 2, 3, 4, 5})
    test.runPass(0, {expert});
  CHECK(test.readyIn(0) == Experts{0, 4, 5});
  REQUIRE(test.cache->unpin(0, 0).isOk());
  CHECK(!test.cache->unpin(0, 0).isOk());
  test.runPass(0, {6});
  CHECK(test.readyIn(0) == Experts{4, 5, 6});
}

TEST_CASE("pins that would leave no room for other experts are refused with the numbers") {
  FakeModel model = evenModel(1, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {4}, 0);
  CHECK(test.cache->pin(0, 1).isOk());
  CHECK(test.cache->pin(0, 1).isOk());
  CHECK(test.cache->pin(0, 2).message() == "m.moe: layer 3 expert 2: pinning it needs 4 pages with "
                                           "the ones pinned before, the layer has 2");
  CHECK(!test.cache->pin(0, 8).isOk());
}

static uint64_t fakeNow = 0;
static uint64_t fakeClock() {
  return fakeNow;
}

TEST_CASE("time spent blocked is counted, time spent polling is not") {
  FakeModel model = evenModel(1, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {8}, 8, kBlock, fakeClock);
  test.runPass(0, {0});
  queue.choose = [](size_t) {
    fakeNow += 70;
    return size_t(0);
  };
  test.runPass(0, {0, 1, 2}); // Two completions of which each was waited for.
  CHECK(test.cache->passTimes().waitNs == 140);
  queue.eager = 8;
  test.runPass(0, {0, 1, 2, 3}); // It has arrived when the first poll looks.
  CHECK(test.cache->passTimes().waitNs == 0);
  CHECK(test.cache->totalTimes().waitNs == 140);
}

TEST_CASE("pages larger than a record's rest work, and so do records of many sizes") {
  FakeModel model({{1, 2, 3, 4, 5, 6, 7, 8}});
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {4}, 2, 4 * kBlock); // Records of 1 or 2 pages.
  CHECK(test.runPass(0, {7, 6, 5, 4, 3, 2, 1, 0}).size() == 8);
  CHECK(test.readyIn(0) == Experts{6, 7});
  test.runPass(0, {0, 1});
  CHECK(test.readyIn(0) == Experts{0, 1, 7});
}

TEST_CASE("calls out of order are refused and do no harm") {
  FakeModel model = evenModel(1, 4, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {4}, 2);
  CHECK(!test.cache->nextReady().isOk());
  CHECK(!test.cache->release(0).isOk());
  CHECK(!test.cache->endLayer().isOk());
  CHECK(!test.cache->beginLayer(1, {Experts{0}}).isOk());
  CHECK(test.cache->beginLayer(0, {Experts{0, 4}}).message() ==
        "m.moe: layer 3 was asked for expert 4, which it does not have");
  CHECK(test.cache->beginLayer(0, {Experts{1, 1}}).message() ==
        "m.moe: layer 3 was asked for expert 1 twice");
  REQUIRE(test.cache->beginLayer(0, {Experts{0, 1}}).isOk());
  CHECK(!test.cache->pin(0, 0).isOk());
  CHECK(!test.cache->beginLayer(0, {Experts{0}}).isOk());
  CHECK(test.cache->endLayer().message() == "m.moe: endLayer after 0 of 2 experts were released");
  CHECK(queue.readsUnderWay() == 0);
  CHECK(test.runPass(0, {0, 1}).size() == 2);
}

TEST_CASE("holding experts that block the rest is an error and not a hang") {
  FakeModel model = evenModel(1, 4, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {0}, 2);
  REQUIRE(test.cache->beginLayer(0, {Experts{0, 1}}).isOk());
  REQUIRE(test.cache->nextReady().value() == 0);
  CHECK(test.cache->nextReady().status().message() ==
        "m.moe: layer 3 has 1 experts in use and no pages to read another one");
  CHECK(test.runPass(0, {0, 1}).size() == 2);
}

TEST_CASE("a pass without wanted experts is over at once") {
  FakeModel model = evenModel(1, 4, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {4}, 2);
  CHECK(test.runPass(0, {}).empty());
}
