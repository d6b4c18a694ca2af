// The cache under every eviction policy, with quotas and with one pool; its start and its prompts.
#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"
#include "tests/unit/policy/AllCacheRules.h"
#include "tests/unit/support/CountAllocations.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>

using namespace moert;

using Experts = std::vector<uint32_t>;

static CacheRules onePool(EvictionPolicy policy = EvictionPolicy::kLru) {
  return {policy, CacheSharing::kOnePool, PromptSurvival::kEverything};
}

static FakeModel evenModel(size_t layers, size_t count, uint64_t blocks) {
  return FakeModel(
      std::vector<std::vector<uint64_t>>(layers, std::vector<uint64_t>(count, blocks)));
}

/// Layer passes a layer with up to two experts in use at a time. All the while nobody holds more
/// than may be held, and the bytes in use are the expert's.
static void executeTwoAtOnce(CacheUnderTest &test, uint32_t layer, const Experts &wanted) {
  uint64_t quotas = 0;
  for (const CacheLayer &one : test.layers)
    quotas += one.quotaPages;
  bool isOnePool = test.config.rules.sharing == CacheSharing::kOnePool;
  uint64_t limit = (isOnePool ? quotas : test.layers[layer].quotaPages) + test.config.stagingPages;
  auto held = [&] {
    uint64_t pages = 0;
    for (uint32_t l = 0; l < test.layers.size(); ++l)
      pages += isOnePool || l == layer ? test.cache->pagesHeld(l) : 0;
    return pages;
  };
  REQUIRE(test.cache->beginLayer(layer, {wanted}).message() == "");
  int before = -1;
  for (bool isOver = false; !isOver;) {
    Result<int> index = test.cache->nextReady();
    REQUIRE(index.status().message() == "");
    isOver = *index < 0;
    REQUIRE(held() <= limit);
    if (before >= 0) {
      REQUIRE(
          test.model.shows(test.cache->bytes(before), layer, wanted[static_cast<size_t>(before)]));
      REQUIRE(test.cache->release(before).message() == "");
    }
    before = *index;
  }
  REQUIRE(test.cache->endLayer().message() == "");
  REQUIRE(held() <= limit - test.config.stagingPages);
}

TEST_CASE("no policy exceeds its pages, evicts an expert in use, or lets go a pinned one") {
  for (const CacheRules &rules : allRules())
    for (uint32_t seed = 0; seed < 8; ++seed) {
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      CAPTURE(seed);
      std::mt19937 random(seed);
      std::vector<std::vector<uint64_t>> sizes(3, std::vector<uint64_t>(10));
      for (auto &layer : sizes)
        for (uint64_t &blocks : layer)
          blocks = seed % 2 ? 3 : 1 + random() % 6;
      FakeModel model(sizes);
      FakeReadQueue queue(model.file, 1 + random() % 6);
      queue.choose = [&](size_t) { return random(); };
      CacheUnderTest test(model, queue, {12, 20, 9}, 12, kBlock, monotonicNs, rules);
      REQUIRE(test.cache->pin(1, 4).isOk());
      bool wasPinnedRead = false;
      for (uint32_t turn = 0; turn < 90; ++turn) {
        queue.eager = random() % 3;
        uint32_t layer = turn % 3;
        Experts wanted = someExperts(random, 10, turn % 11 == 0 ? 10 : 4);
        executeTwoAtOnce(test, layer, wanted);
        wasPinnedRead |= layer == 1 && std::count(wanted.begin(), wanted.end(), 4) > 0;
        REQUIRE(test.cache->isReady(1, 4) == wasPinnedRead);
      }
      CHECK(wasPinnedRead);
    }
}

TEST_CASE("layer passes allocate nothing under any policy") {
  FakeModel model = evenModel(2, 16, 3);
  std::mt19937 random(9);
  std::vector<Experts> wanted;
  for (int i = 0; i < 50; ++i)
    wanted.push_back(someExperts(random, 16, 16));
  for (const CacheRules &rules : allRules()) {
    FakeReadQueue queue(model.file, 4);
    CacheUnderTest test(model, queue, {12, 6}, 6, kBlock, monotonicNs, rules);
    uint64_t before = allocationsSoFar();
    bool isOk = true;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (i % 10 == 0)
        isOk = isOk && test.cache->beginPrompt().isOk();
      isOk = isOk && test.cache->beginLayer(i % 2, {wanted[i]}).isOk();
      for (int index; (index = test.cache->nextReady().value()) >= 0;)
        isOk = isOk && test.cache->release(index).isOk();
      isOk = isOk && test.cache->endLayer().isOk();
    }
    uint64_t after = allocationsSoFar();
    CHECK(isOk);
    CHECK(after == before);
  }
}

TEST_CASE(
    "with one pool a layer may fill it all, and its largest record needs no quota of its own") {
  FakeModel model = evenModel(2, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {12, 0}, 0, kBlock, monotonicNs, onePool());
  test.runPass(1, {0, 1, 2, 3, 4, 5});
  CHECK(test.cache->pagesHeld(1) == 12);
  test.runPass(0, {0, 1});
  CHECK(test.readyIn(1) == Experts{0, 1, 2, 3});
  CHECK(test.readyIn(0) == Experts{0, 1});
}

TEST_CASE("one pool that is smaller than a record is refused") {
  FakeModel model = evenModel(2, 8, 4);
  FakeReadQueue queue(model.file);
  CacheUnderTest good(model, queue, {2, 2}, 0, kBlock, monotonicNs, onePool());
  good.layers[0].quotaPages = 1;
  CHECK(ExpertCache::create(good.config, queue).status().message() ==
        "m.moe: layer 3 has 3 pages and 0 in staging, its largest record needs 4");
}

TEST_CASE("the cache is filled in the order of the plan as far as the experts fit") {
  FakeModel model = evenModel(2, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {6, 4}, 2);
  Experts wanted{7, 5, 3, 1}, uses{4, 3, 2, 1};
  REQUIRE(test.cache->fill(0, {wanted, uses, 4}).message() == "");
  CHECK(test.readyIn(0) == Experts{3, 5, 7});
  CHECK(test.cache->totalCounts().misses == 0);
  CHECK(test.cache->totalCounts().bytesRead == 0);
  test.runPass(0, {5, 0});
  CHECK(test.cache->totalCounts().hits == 1);
  CHECK(test.readyIn(0) == Experts{0, 5, 7}); // 3 was the least popular of the start.
}

TEST_CASE("filling with an expert that a layer does not have is refused") {
  FakeModel model = evenModel(1, 8, 2);
  FakeReadQueue queue(model.file);
  CacheUnderTest test(model, queue, {6}, 2);
  CHECK(test.cache->fill(0, {Experts{1, 8}}).message() ==
        "m.moe: layer 3 was asked for expert 8, which it does not have");
  CHECK(test.cache->fill(0, {Experts{1, 2, 1}}).message() ==
        "m.moe: layer 3 was asked for expert 1 twice");
  CHECK(test.cache->fill(1, {Experts{1}}).message() == "m.moe: fill of 1, there are 1");
  CHECK(test.readyIn(0).empty());
}

TEST_CASE("a prompt finds what the rules let it find") {
  FakeModel model = evenModel(1, 8, 1);
  FakeReadQueue queue(model.file);
  for (PromptSurvival survival :
       {PromptSurvival::kEverything, PromptSurvival::kContents, PromptSurvival::kPins}) {
    CacheUnderTest test(model, queue, {3}, 1, kBlock, monotonicNs,
                        {EvictionPolicy::kLfu, CacheSharing::kLayerQuotas, survival});
    REQUIRE(test.cache->pin(0, 7).isOk());
    for (const Experts &wanted : {Experts{1}, {1}, {1}, {2}, {7}})
      test.runPass(0, wanted);
    REQUIRE(test.cache->beginPrompt().isOk());
    bool isKept = survival != PromptSurvival::kPins;
    CHECK(test.readyIn(0) == (isKept ? Experts{1, 2, 7} : Experts{7}));
    test.runPass(0, {2});
    test.runPass(0, {2});
    test.runPass(0, {3});
    test.runPass(0, {3});
    // 1 has 3 uses against 2 has 3 and 3 has 2; once forgotten, 0 against 2 and 2.
    bool isForgotten = survival != PromptSurvival::kEverything;
    CHECK(test.readyIn(0) == (isForgotten ? Experts{2, 3, 7} : Experts{1, 2, 7}));
  }
}
