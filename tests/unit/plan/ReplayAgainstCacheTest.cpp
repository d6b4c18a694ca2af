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
  return {stats.hits,       stats.misses,  stats.evictions, stats.bytesRead,      stats.guessesRead,
          stats.guessBytes, stats.adopted, stats.refuted,   stats.guessesRetained};
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

namespace {

/// What predictors say before a play: of each later layer that they speak of, candidates of whom
/// many come true.
struct RandomGuesses {
  RandomGuesses(std::mt19937 &random, const RoutingTrace &trace, size_t play) {
    uint32_t layers = static_cast<uint32_t>(trace.layerExperts.size());
    uint32_t layer = trace.plays[play].layer;
    for (uint32_t ahead = 1; ahead <= kMostAhead && layer + ahead < layers; ++ahead) {
      if (random() % 3 == 0 || play + ahead >= trace.plays.size())
        continue;
      PlayDemand coming = trace.demandOf(trace.plays[play + ahead]);
      std::vector<GuessCandidate> list;
      uint32_t share = kWholeShare / 2;
      for (uint32_t expert : coming.wanted)
        if (random() % 4)
          list.push_back({expert, share -= random() % 1000});
      for (uint32_t expert = 0; expert < trace.layerExperts[layer + ahead]; ++expert)
        if (std::none_of(list.begin(), list.end(), [&](auto &c) { return c.expert == expert; }))
          list.push_back({expert, share -= random() % 1000});
      candidates.push_back(list);
      uint16_t reads = static_cast<uint16_t>(1 + random() % 5);
      GuessRule rule{Predictor::kGate, static_cast<uint8_t>(ahead), 8, reads,
                     random() % 2 ? kWholeShare / 2 - 3000 : 0};
      guesses.push_back({layer + ahead, rule, {}});
    }
    for (size_t i = 0; i < guesses.size(); ++i)
      guesses[i].candidates = candidates[i];
  }
  std::vector<std::vector<GuessCandidate>> candidates;
  std::vector<LayerGuess> guesses;
};

} // namespace

static ReplayCache planOf(const FakeModel &model, const std::vector<uint64_t> &quotas,
                          uint64_t transit, uint64_t pageBytes, const CacheRules &rules) {
  ReplayCache plan;
  plan.pageBytes = pageBytes;
  plan.transitPages = transit;
  plan.rules = rules;
  for (size_t l = 0; l < quotas.size(); ++l) {
    ReplayLayer layer;
    for (const ExpertRecord &record : model.records[l])
      layer.recordBytes.push_back(record.bytes);
    layer.quotaPages = quotas[l];
    plan.layers.push_back(layer);
  }
  return plan;
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

      ReplayCache plan = planOf(model, quotas, transit, pageBytes, rules);
      for (uint32_t l = 0; l < 3; ++l) {
        plan.layers[l].start = {4, 0, 2};
        plan.layers[l].startUses = {9, 5, 2};
        plan.layers[l].startTokens = 10;
        if (test.cache->pin(l, 1).isOk())
          plan.layers[l].pinned = {1};
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

// All reads that were begun are there whenever the synchronous cache looks.
TEST_CASE("the replay counts what a cache with synchronous reads counts, and decides as any does") {
  uint64_t retained = 0;
  for (uint32_t seed = 0; seed < 24; ++seed) {
    std::mt19937 random(seed);
    uint32_t experts = 5 + random() % 8, layers = 4;
    RoutingTrace trace = randomTrace(random, layers, experts, 1 + random() % 4,
                                     stepsOfWindows(3, 24, seed % 2 * 10, 4));
    std::vector<std::vector<uint64_t>> blocks(layers, std::vector<uint64_t>(experts, 3));
    if (seed % 3)
      for (auto &layer : blocks)
        for (uint64_t &size : layer)
          size = 1 + random() % 7;
    FakeModel model(blocks);
    std::vector<uint64_t> quotas{random() % 30, random() % 30, random() % 30, random() % 30};
    uint64_t pageBytes = kBlock << seed % 2, transit = 7 + random() % 20;
    for (CacheRules rules : allRules()) {
      rules.survival = static_cast<PromptSurvival>(seed % 3);
      CAPTURE(seed);
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      FakeReadQueue synchronousQueue(model.file), racingQueue(model.file, 1 + random() % 5);
      synchronousQueue.eager = 64;
      racingQueue.choose = [&](size_t) { return random(); };
      CacheUnderTest synchronous(model, synchronousQueue, quotas, transit, pageBytes, monotonicNs,
                                 rules, 64);
      CacheUnderTest racing(model, racingQueue, quotas, transit, pageBytes, monotonicNs, rules);
      CacheReplay replay =
          CacheReplay::create(planOf(model, quotas, transit, pageBytes, rules)).value();
      ReplayCounts total;
      for (size_t p = 0; p < trace.plays.size(); ++p) {
        const RoutingPlay &play = trace.plays[p];
        if (play.beginsPrompt) {
          REQUIRE(synchronous.cache->beginPrompt().isOk());
          REQUIRE(racing.cache->beginPrompt().isOk());
          replay.beginPrompt();
        }
        RandomGuesses said(random, trace, p);
        for (const LayerGuess &guess : said.guesses) {
          synchronous.cache->guess(guess);
          racing.cache->guess(guess);
        }
        ReplayCounts expected = replay.play(play.layer, trace.demandOf(play), said.guesses);
        total += expected;
        REQUIRE(playInCache(*synchronous.cache, play.layer, trace.demandOf(play)) == expected);
        REQUIRE(synchronous.cache->layerStats().present == expected.hits + expected.adopted);
        racingQueue.eager = random() % 3;
        ReplayCounts raced = playInCache(*racing.cache, play.layer, trace.demandOf(play));
        REQUIRE(raced.hits == expected.hits);
        REQUIRE(raced.misses == expected.misses);
        REQUIRE(raced.evictions == expected.evictions);
      }
      CHECK(total.adopted > 0);
      CHECK(countsOf(synchronous.cache->totalStats()) == total);
      retained += total.guessesRetained;
    }
  }
  CHECK(retained > 100);
}
