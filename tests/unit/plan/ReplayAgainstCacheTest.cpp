// The replay and the runtime's cache see the same trace and have to count the same, layer pass by
// layer pass.
#include "compiler/plan/CacheReplay.h"

#include "tests/unit/cache/CacheFixture.h"
#include "tests/unit/cache/FakeReadQueue.h"
#include "tests/unit/plan/RandomTrace.h"
#include "tests/unit/policy/AllCacheRules.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

/// A replay without time never waits.
static CacheCounts withoutStalls(CacheCounts counts) {
  counts.stalled = 0;
  return counts;
}

static CacheCounts executeInCache(ExpertCache &cache, uint32_t layer, const PassDemand &demand) {
  REQUIRE(cache.beginLayer(layer, demand).message() == "");
  while (true) {
    Result<int> index = cache.nextReady();
    REQUIRE(index.status().message() == "");
    if (*index < 0)
      break;
    REQUIRE(cache.release(*index).message() == "");
  }
  REQUIRE(cache.endLayer().message() == "");
  return withoutStalls(cache.passCounts());
}

namespace {

/// What predictors say before a layer pass: of each later layer that they speak of, candidates of
/// whom many come true.
struct RandomPrefetches {
  RandomPrefetches(std::mt19937 &random, const RoutingTrace &trace, size_t pass) {
    uint32_t layers = static_cast<uint32_t>(trace.layerExperts.size());
    uint32_t layer = trace.passes[pass].layer;
    for (uint32_t ahead = 1; ahead <= kMostAhead && layer + ahead < layers; ++ahead) {
      if (random() % 3 == 0 || pass + ahead >= trace.passes.size())
        continue;
      PassDemand coming = trace.demandOf(trace.passes[pass + ahead]);
      std::vector<PrefetchCandidate> list;
      uint32_t probability = kFixedPointOne / 2;
      for (uint32_t expert : coming.wanted)
        if (random() % 4)
          list.push_back({expert, probability -= random() % 1000});
      for (uint32_t expert = 0; expert < trace.layerExperts[layer + ahead]; ++expert)
        if (std::none_of(list.begin(), list.end(), [&](auto &c) { return c.expert == expert; }))
          list.push_back({expert, probability -= random() % 1000});
      candidates.push_back(list);
      std::vector<uint16_t> &of = slices.emplace_back();
      for (size_t i = 0; i < list.size(); ++i)
        of.push_back(random() % 4 == 0 ? kAllSlices : static_cast<uint16_t>(random() % 3));
      uint16_t reads = static_cast<uint16_t>(1 + random() % 5);
      const Predictor predictor = random() % 2 ? Predictor::kGate : Predictor::kAdaptiveGate;
      PrefetchRule rule{predictor, static_cast<uint8_t>(ahead), 8, reads,
                        random() % 2 ? kFixedPointOne / 2 - 3000 : 0};
      prefetches.push_back({layer + ahead, rule, {}});
    }
    for (size_t i = 0; i < prefetches.size(); ++i) {
      prefetches[i].candidates = candidates[i];
      prefetches[i].slices = slices[i];
    }
  }
  std::vector<std::vector<PrefetchCandidate>> candidates;
  std::vector<std::vector<uint16_t>> slices;
  std::vector<LayerPrefetch> prefetches;
};

} // namespace

static ReplayCache planOf(const FakeModel &model, const std::vector<uint64_t> &quotas,
                          uint64_t staging, uint64_t pageBytes, const CacheRules &rules) {
  ReplayCache plan;
  plan.pageBytes = pageBytes;
  plan.stagingPages = staging;
  plan.rules = rules;
  for (size_t l = 0; l < quotas.size(); ++l) {
    ReplayLayer layer;
    for (const ExpertRecord &record : model.records[l]) {
      layer.recordBytes.push_back(record.bytes);
      std::vector<uint64_t> &ends = layer.sliceEnds.emplace_back();
      for (const RecordSlice &slice : record.slices)
        ends.push_back(slice.offset + slice.bytes);
      layer.lowCopySlices.push_back(record.lowCopySlices);
      layer.recordBytes.back() -= record.slices[record.lowCopySlices].offset;
    }
    layer.quotaPages = quotas[l];
    plan.layers.push_back(layer);
  }
  return plan;
}

TEST_CASE("the replay counts what the runtime's cache counts, pass by pass, under every rule") {
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
    uint64_t pageBytes = kBlock << seed % 2, staging = 7 + random() % 8;
    for (CacheRules rules : allRules()) {
      rules.survival = static_cast<PromptSurvival>(seed % 3);
      CAPTURE(seed);
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      FakeReadQueue queue(model.file, 1 + random() % 5);
      queue.choose = [&](size_t) { return random(); };
      CacheUnderTest test(model, queue, quotas, staging, pageBytes, monotonicNs, rules);

      ReplayCache plan = planOf(model, quotas, staging, pageBytes, rules);
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
      for (size_t p = 0; p < trace.passes.size(); ++p) {
        const RoutingPass &pass = trace.passes[p];
        if (pass.beginsPrompt)
          REQUIRE(test.cache->beginPrompt().isOk());
        queue.eager = random() % 3;
        REQUIRE(executeInCache(*test.cache, pass.layer, trace.demandOf(pass)) ==
                expected.passes[p]);
      }
      CHECK(withoutStalls(test.cache->totalCounts()) == expected.total);
    }
  }
}

static uint16_t slicesIn(const CacheDirectory &directory, uint32_t id) {
  const CacheUnit &unit = directory.at(id).unit;
  return unit.isHeld() ? unit.slicesPresent : uint16_t(0);
}

/// Some slices for each expert.
static std::vector<uint16_t> someSlices(std::mt19937 &random, const FakeModel &model,
                                        uint32_t layer, std::span<const uint32_t> wanted) {
  std::vector<uint16_t> slices;
  for (uint32_t expert : wanted)
    slices.push_back(static_cast<uint16_t>(1 + random() % model.slices[layer][expert].size()));
  return slices;
}

// All reads that were begun are there whenever the synchronous cache looks.
TEST_CASE("the replay counts what a cache with synchronous reads counts, and decides as any does") {
  uint64_t retained = 0, reduced = 0;
  for (uint32_t seed = 0; seed < 36; ++seed) {
    const bool hasCopies = seed >= 24;
    std::mt19937 random(seed);
    uint32_t experts = 5 + random() % 8, layers = 4;
    RoutingTrace trace = randomTrace(random, layers, experts, 1 + random() % 4,
                                     stepsOfWindows(3, 24, seed % 2 * 10, 4));
    std::vector<std::vector<uint64_t>> blocks(layers, std::vector<uint64_t>(experts, 3));
    if (seed % 3)
      for (auto &layer : blocks)
        for (uint64_t &size : layer)
          size = 1 + random() % 7;
    FakeModel model(blocks, hasCopies ? copiesCut : nestedCut);
    std::vector<uint64_t> quotas{random() % 30, random() % 30, random() % 30, random() % 30};
    uint64_t pageBytes = kBlock << seed % 2, staging = 7 + random() % 20;
    for (CacheRules rules : allRules()) {
      rules.survival = static_cast<PromptSurvival>(seed % 3);
      rules.baseSlices = seed / 2 % 2;
      if (rules.sharing == CacheSharing::kOnePool && seed % 4 == 3)
        rules.upperPart = kFixedPointOne / 2;
      CAPTURE(seed);
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      FakeReadQueue synchronousQueue(model.file), racingQueue(model.file, 1 + random() % 5);
      synchronousQueue.eager = 64;
      racingQueue.choose = [&](size_t) { return random(); };
      CacheUnderTest synchronous(model, synchronousQueue, quotas, staging, pageBytes, monotonicNs,
                                 rules, 64);
      CacheUnderTest racing(model, racingQueue, quotas, staging, pageBytes, monotonicNs, rules);
      CacheReplay replay =
          CacheReplay::create(planOf(model, quotas, staging, pageBytes, rules)).value();
      CacheCounts total;
      std::vector<uint16_t> slicesBefore(replay.state().size().experts);
      for (size_t p = 0; p < trace.passes.size(); ++p) {
        const RoutingPass &pass = trace.passes[p];
        if (pass.beginsPrompt) {
          REQUIRE(synchronous.cache->beginPrompt().isOk());
          REQUIRE(racing.cache->beginPrompt().isOk());
          replay.beginPrompt();
        }
        RandomPrefetches said(random, trace, p);
        for (const LayerPrefetch &prefetch : said.prefetches) {
          synchronous.cache->prefetch(prefetch);
          racing.cache->prefetch(prefetch);
        }
        PassDemand demand = trace.demandOf(pass);
        const std::vector<uint16_t> slices = someSlices(random, model, pass.layer, demand.wanted);
        if (random() % 4 > 0)
          demand.slices = slices;
        CacheCounts expected = replay.runPass(pass.layer, demand, said.prefetches);
        total += expected;
        REQUIRE(executeInCache(*synchronous.cache, pass.layer, demand) == expected);
        racingQueue.eager = random() % 3;
        CacheCounts raced = executeInCache(*racing.cache, pass.layer, demand);
        REQUIRE(raced.hits == expected.hits);
        REQUIRE(raced.misses == expected.misses);
        REQUIRE(raced.evictions == expected.evictions);
        for (uint32_t id = 0; id < replay.state().size().experts; ++id) {
          const uint16_t held = slicesIn(replay.state(), id);
          REQUIRE(slicesIn(racing.cache->state(), id) == held);
          reduced += held > 0 && held < slicesBefore[id];
          slicesBefore[id] = held;
        }
      }
      for (const CacheDirectory *state :
           {&synchronous.cache->state(), &racing.cache->state(), &replay.state()})
        REQUIRE(state->forbiddenEvents() == 0);
      CHECK(total.useful > 0);
      CHECK(withoutStalls(synchronous.cache->totalCounts()) == total);
      retained += total.prefetchesRetained;
    }
  }
  CHECK(reduced > 1000);
  CHECK(retained > 100);
}
