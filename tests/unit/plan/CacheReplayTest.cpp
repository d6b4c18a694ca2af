#include "compiler/plan/CacheReplay.h"

#include "compiler/plan/BeladyBound.h"
#include "tests/unit/plan/RandomTrace.h"
#include "tests/unit/policy/AllCacheRules.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

using Experts = std::vector<uint32_t>;

/// Layers of records of that many bytes, on pages of 4 KiB.
static ReplayCache evenCache(std::vector<uint64_t> quotas, size_t experts, uint64_t bytes) {
  ReplayCache cache;
  cache.pageBytes = 4096;
  for (uint64_t quota : quotas) {
    ReplayLayer layer;
    layer.recordBytes.assign(experts, bytes);
    layer.quotaPages = quota;
    cache.layers.push_back(layer);
  }
  return cache;
}

static RoutingTrace oneLayerTrace(uint32_t experts, std::vector<uint16_t> chosen) {
  LayerRoutes layer{experts, 1, chosen};
  std::vector<TraceStep> steps(chosen.size());
  return makeTrace(std::span(&layer, 1), steps).value();
}

TEST_CASE("a replay counts hits, misses, evictions and the bytes of the records") {
  // Two records of two pages stay, least recently used first out: 0 1 hit(0) 2 out(1) 1 out(0).
  ReplayCache cache = evenCache({4}, 3, 5000);
  ReplayResult result = replayTrace(oneLayerTrace(3, {0, 1, 0, 2, 1}), cache).value();
  CHECK(result.total ==
        CacheCounts{.hits = 1, .misses = 4, .evictions = 2, .bytesRead = 4 * 5000, .ready = 1});
  REQUIRE(result.passes.size() == 5);
  CHECK(result.passes[2] == CacheCounts{.hits = 1, .ready = 1});
  CHECK(result.passes[3] == CacheCounts{.misses = 1, .evictions = 1, .bytesRead = 5000});
}

TEST_CASE(
    "what the cache starts with is read before the first pass and not counted with the passes") {
  ReplayCache cache = evenCache({4}, 3, 8192);
  cache.layers[0].start = {2, 0, 1};
  ReplayResult result = replayTrace(oneLayerTrace(3, {0, 2}), cache).value();
  CHECK(result.startBytes == 2 * 8192);
  CHECK(result.total == CacheCounts{.hits = 2, .ready = 2});
}

TEST_CASE("a prompt begins with what the rules leave") {
  std::vector<uint16_t> chosen{0, 0, 0, 0};
  LayerRoutes layer{2, 1, chosen};
  std::vector<TraceStep> steps = stepsOfWindows(2, 2, 0, 1);
  RoutingTrace trace = makeTrace(std::span(&layer, 1), steps).value();
  ReplayCache cache = evenCache({1}, 2, 4096);
  CHECK(replayTrace(trace, cache).value().total.misses == 1);
  cache.rules.survival = PromptSurvival::kContents;
  CHECK(replayTrace(trace, cache).value().total.misses == 1);
  cache.rules.survival = PromptSurvival::kPins;
  CHECK(replayTrace(trace, cache).value().total.misses == 2);
}

TEST_CASE("a cache that the runtime would refuse is refused with the numbers") {
  RoutingTrace trace = oneLayerTrace(3, {0, 1});
  auto refusal = [&](auto change) {
    ReplayCache cache = evenCache({4}, 3, 8192);
    change(cache);
    return replayTrace(trace, cache).status().message();
  };
  CHECK(refusal([](ReplayCache &) {}) == "");
  CHECK(refusal([](ReplayCache &c) { c.pageBytes = 0; }) == "a cache has pages of no bytes");
  CHECK(refusal([](ReplayCache &c) { c.layers[0].quotaPages = 1; }) ==
        "MoE layer 0 may hold 1 pages, its largest record needs 2");
  CHECK(refusal([](ReplayCache &c) { c.layers[0].start = {3}; }) ==
        "MoE layer 0 has 3 experts, its plan names 3");
  CHECK(refusal([](ReplayCache &c) {
          c.layers[0].start = {1, 1};
        }) == "MoE layer 0 is to start with an expert twice");
  CHECK(refusal([](ReplayCache &c) { c.layers[0].startTokens = 0; }) != "");
  CHECK(refusal([](ReplayCache &c) {
          c.layers[0].pinned = {0, 1};
        }) == "MoE layer 0 expert 1 cannot be pinned: it has 2 pages, 2 of 2 are pinned");
  CHECK(refusal([](ReplayCache &c) { c.layers.clear(); }) ==
        "the trace and the cache are of different layers");
}

/// What a policy may do at worst: more pages than allowed, or a pinned expert gone.
static void checkWhileReplaying(const RoutingTrace &trace, const ReplayCache &cache) {
  CacheReplay replay = CacheReplay::create(cache).value();
  uint64_t quotas = 0;
  for (const ReplayLayer &layer : cache.layers)
    quotas += layer.quotaPages;
  std::vector<bool> wasWanted(cache.layers.size() * trace.layerExperts[0]);
  for (const RoutingPass &pass : trace.passes) {
    replay.runPass(pass.layer, trace.demandOf(pass));
    uint64_t held = 0;
    for (uint32_t l = 0; l < cache.layers.size(); ++l) {
      held += replay.state().pagesHeld(l);
      if (cache.rules.sharing == CacheSharing::kLayerQuotas)
        REQUIRE(replay.state().pagesHeld(l) <= cache.layers[l].quotaPages);
    }
    REQUIRE(held <= quotas);
    for (uint32_t expert : trace.demandOf(pass).wanted)
      wasWanted[replay.state().idOf(pass.layer, expert)] = true;
    for (uint32_t l = 0; l < cache.layers.size(); ++l)
      for (uint32_t expert : cache.layers[l].pinned) {
        uint32_t id = replay.state().idOf(l, expert);
        REQUIRE(replay.state().at(id).isHeld() == wasWanted[id]);
      }
  }
}

TEST_CASE("over random traces no policy exceeds its pages, loses a pin, or beats Belady") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    uint32_t layers = 1 + random() % 4, experts = 6 + random() % 10, topK = 1 + random() % 4;
    RoutingTrace trace =
        randomTrace(random, layers, experts, topK, stepsOfWindows(2, 60, seed % 3 * 20, 7));
    ReplayCache cache = evenCache(std::vector<uint64_t>(layers), experts, 9000);
    std::vector<std::vector<uint64_t>> recordBytes;
    uint64_t poolPages = 0;
    for (ReplayLayer &layer : cache.layers) {
      if (seed % 2)
        for (uint64_t &bytes : layer.recordBytes)
          bytes = 1 + random() % 20000;
      recordBytes.push_back(layer.recordBytes);
      layer.quotaPages = random() % (3 * experts);
      poolPages += layer.quotaPages;
    }
    cache.stagingPages = 5;
    if (cache.layers.back().quotaPages >= 5)
      cache.layers.back().pinned = {3};
    BeladyBound bound = beladyBound(trace, recordBytes, cache.pageBytes, poolPages);
    for (const CacheRules &rules : allRules()) {
      CAPTURE(seed);
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      cache.rules = rules;
      checkWhileReplaying(trace, cache);
      ReplayResult result = replayTrace(trace, cache).value();
      CHECK(result.total.hits + result.total.misses == trace.wanted.size());
      CHECK(result.total.misses >= bound.misses);
      CHECK(result.total.bytesRead >= bound.bytesRead);
    }
  }
}

TEST_CASE("no policy beats Belady with the same start") {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    RoutingTrace trace = randomTrace(random, 3, 8, 2, stepsOfWindows(1, 40, 0, 1));
    ReplayCache cache = evenCache({6, 9, 12}, 8, 3 * 4096);
    for (ReplayLayer &layer : cache.layers)
      layer.start = {7, 6, 0, 1, 2, 3};
    std::vector<std::vector<uint64_t>> bytes(3, cache.layers[0].recordBytes);
    BeladyBound bound = beladyBound(trace, bytes, 4096, 27, HeldExperts(3, cache.layers[0].start));
    for (const CacheRules &rules : allRules()) {
      cache.rules = rules;
      cache.stagingPages = 6;
      CHECK(replayTrace(trace, cache).value().total.misses >= bound.misses);
    }
  }
}

static CacheReplay prefetchedReplay(uint64_t stagingPages) {
  ReplayCache cache = evenCache({2, 2, 2}, 8, 4096);
  cache.stagingPages = stagingPages;
  return CacheReplay::create(cache).value();
}

constexpr PrefetchRule kTwoOfEight{Predictor::kGate, 1, 8, 2, 0};

TEST_CASE("prefetches are read at the end of the pass that makes them, and useful or cancelled") {
  CacheReplay replay = prefetchedReplay(3);
  std::vector<PrefetchCandidate> candidates{{6, 90}, {5, 80}, {4, 70}};
  LayerPrefetch prefetch{1, kTwoOfEight, candidates};
  CacheCounts made{
      .misses = 1, .bytesRead = 3 * 4096, .prefetchesRead = 2, .prefetchBytes = 2 * 4096};
  CHECK(replay.runPass(0, {Experts{0}}, std::span(&prefetch, 1)) == made);
  CHECK(replay.runPass(1, {Experts{1, 5}}) ==
        CacheCounts{.misses = 2, .bytesRead = 4096, .useful = 1, .ready = 1, .cancelled = 1});
}

TEST_CASE("a prefetch of a later layer gives way to the demand of a layer between") {
  std::vector<PrefetchCandidate> candidates{{6, 90}, {5, 80}};
  for (uint32_t wanted : {2, 3, 4}) {
    CacheReplay replay = prefetchedReplay(2);
    LayerPrefetch prefetch{2, kTwoOfEight, candidates};
    CHECK(replay.runPass(0, {Experts{0}}, std::span(&prefetch, 1)).prefetchesRead == 2);
    Experts experts{0, 1, 2, 3};
    experts.resize(wanted);
    CHECK(replay.runPass(1, {experts}).cancelled == wanted - 2); // Of 4 pages 2 were left.
    CHECK(replay.runPass(2, {Experts{6, 5}}).useful == 4 - wanted);
  }
}

TEST_CASE("a new prompt lets go the prefetches of the old one") {
  CacheReplay replay = prefetchedReplay(2);
  std::vector<PrefetchCandidate> candidates{{6, 90}};
  LayerPrefetch prefetch{1, kTwoOfEight, candidates};
  CHECK(replay.runPass(0, {Experts{0}}, std::span(&prefetch, 1)).prefetchesRead == 1);
  replay.beginPrompt();
  CHECK(replay.runPass(1, {Experts{6}}) ==
        CacheCounts{.misses = 1, .bytesRead = 4096, .cancelled = 1});
}
