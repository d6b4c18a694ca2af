// The replay and the runtime's cache see the same trace and have to count the same, play by play.
#include "compiler/plan/CacheReplay.h"

#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"
#include "tests/unit/plan/RandomTrace.h"
#include "tests/unit/policy/AllCacheRules.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

static ReplayCounts countsOf(const CacheStats &stats) {
  return {stats.hits, stats.misses, stats.evictions, stats.bytesRead};
}

static ReplayCounts playInCache(ExpertCache &cache, uint32_t layer, const PlayDemand &demand) {
  REQUIRE(cache.beginLayer(layer, demand).message() == "");
  while (true) {
    Result<int> index = cache.nextReady();
    REQUIRE(index.status().message() == "");
    if (*index < 0)
      break;
    REQUIRE(cache.release(*index).message() == "");
  }
  REQUIRE(cache.endLayer().message() == "");
  return countsOf(cache.layerStats());
}

TEST_CASE("the replay counts what the runtime's cache counts, play by play, under every rule") {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    uint32_t experts = 5 + random() % 8;
    RoutingTrace trace =
        randomTrace(random, 3, experts, 1 + random() % 4, stepsOfWindows(3, 24, seed % 2 * 10, 4));
    std::vector<std::vector<uint64_t>> blocks(3, std::vector<uint64_t>(experts, 3));
    if (seed % 3)
      for (auto &layer : blocks)
        for (uint64_t &size : layer)
          size = 1 + random() % 7;
    FakeModel model(blocks);
    std::vector<uint64_t> quotas{random() % 30, random() % 30, random() % 30};
    uint64_t pageBytes = kBlock << seed % 2, transit = 7 + random() % 8;
    for (CacheRules rules : allRules()) {
      rules.survival = static_cast<PromptSurvival>(seed % 3);
      CAPTURE(seed);
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      FakeReadQueue queue(model.file, 1 + random() % 5);
      queue.choose = [&](size_t) { return random(); };
      CacheUnderTest test(model, queue, quotas, transit, pageBytes, monotonicNs, rules);

      ReplayCache plan;
      plan.pageBytes = pageBytes;
      plan.transitPages = transit;
      plan.rules = rules;
      for (uint32_t l = 0; l < 3; ++l) {
        ReplayLayer layer;
        for (uint64_t size : blocks[l])
          layer.recordBytes.push_back(size * kBlock);
        layer.quotaPages = quotas[l];
        layer.start = {4, 0, 2};
        layer.startUses = {9, 5, 2};
        layer.startTokens = 10;
        if (test.cache->pin(l, 1).isOk())
          layer.pinned = {1};
        plan.layers.push_back(layer);
      }
      for (uint32_t l = 0; l < 3; ++l)
        REQUIRE(test.cache
                    ->fill(l, {plan.layers[l].start, plan.layers[l].startUses,
                               plan.layers[l].startTokens})
                    .message() == "");
      ReplayResult expected = replayTrace(trace, plan).value();
      for (size_t p = 0; p < trace.plays.size(); ++p) {
        const RoutingPlay &play = trace.plays[p];
        if (play.beginsPrompt)
          REQUIRE(test.cache->beginPrompt().isOk());
        queue.eager = random() % 3;
        REQUIRE(playInCache(*test.cache, play.layer, trace.demandOf(play)) == expected.plays[p]);
      }
      CHECK(countsOf(test.cache->totalStats()) == expected.total);
    }
  }
}
