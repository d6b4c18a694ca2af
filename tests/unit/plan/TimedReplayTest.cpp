#include "compiler/plan/TimedReplay.h"

#include "tests/unit/plan/PlanFixture.h"
#include "tests/unit/policy/AllCacheRules.h"

#include <doctest/doctest.h>
#include <numeric>

using namespace moec;
using namespace moert;

static TimedResult executed(const PlanFixture &fixture, const PlanSettings &settings) {
  return replayInTime(fixture.problem(), settings, {.keepsPasses = true}).value();
}

/// A replay without time never waits.
static CacheCounts withoutStalls(CacheCounts counts) {
  counts.stalled = 0;
  return counts;
}

//===-- Timelines by hand ---------------------------------------------------------------------===//

// 100 before the layer, 50 an expert, 5 to check one that was read, 30 after it; 4096 a read.

TEST_CASE("experts are computed as they arrive, while the next ones are read") {
  // Read at 100: there at 4196 and 8292; 8292 + 55 + 30.
  TimedResult result = executed(PlanFixture(tokensOf(3, 2, {0, 1}), 2, 2), quotasOf({0}, 2));
  REQUIRE(result.tokenNs.size() == 1);
  CHECK(result.tokenNs[0] == doctest::Approx(8377));
  CHECK(result.decode.computeNs == doctest::Approx(100 + 2 * 55 + 30));
  CHECK(result.decode.waitNs == doctest::Approx(4096 + 4096 - 55));
  CHECK(result.diskBusyNs == doctest::Approx(8192));
  CHECK(result.decode.cache.stalled == 2);
}

TEST_CASE("threads share out the checks of experts that are there together") {
  auto computeNs = [](uint32_t slices, uint32_t threads, double besideNs) {
    PlanFixture fixture(tokensOf(3, 3, {0, 1, 2}), 3, 3);
    fixture.costs.layers[0].checks = {std::vector<double>(threads, 5), slices};
    fixture.costs.layers[0].beside = {besideNs, 0}; // Until all three are there, or none.
    return executed(fixture, quotasOf({0}, 3)).decode.computeNs - besideNs - 100 - 3 * 50 - 30;
  };
  CHECK(computeNs(1, 1, 20000) == doctest::Approx(3 * 5));
  CHECK(computeNs(1, 2, 20000) == doctest::Approx(5 + 5));
  CHECK(computeNs(1, 2, 0) == doctest::Approx(3 * 5));
  CHECK(computeNs(2, 2, 20000) == doctest::Approx(3 * 5));
  CHECK(computeNs(2, 3, 20000) == doctest::Approx(2 * 5 + 5));
}

TEST_CASE("operations after the router are computed while the experts are read") {
  PlanFixture fixture(tokensOf(3, 2, {0, 1}), 2, 2);
  fixture.costs.layers[0].beside = {4000, 0};
  // Read at 100: there at 4196 and 8292, as without.
  TimedResult result = executed(fixture, quotasOf({0}, 2));
  CHECK(result.tokenNs[0] == doctest::Approx(8377));
  CHECK(result.decode.computeNs == doctest::Approx(100 + 4000 + 2 * 55 + 30));
}

TEST_CASE("a read takes longer while the processor computes than while it waits") {
  PlanFixture fixture(tokensOf(3, 1, {0}), 1, 1);
  fixture.costs.layers[0].beside = {1000, 0};
  fixture.costs.contention.readingWhileComputing = 0.25;
  // Read at 100: 250 bytes until 1100, the rest while it waits.
  TimedResult result = executed(fixture, quotasOf({0}, 1));
  CHECK(result.decode.waitNs == doctest::Approx(4096 - 250));
  CHECK(result.tokenNs[0] == doctest::Approx(1100 + 4096 - 250 + 55 + 30));
}

TEST_CASE("computing takes longer while reads are under way, and not before or after") {
  PlanFixture fixture(tokensOf(3, 1, {0}), 1, 1);
  fixture.costs.layers[0].beside = {4000, 0};
  fixture.costs.contention.computingWhileReading = 0.5;
  // Read from 100 to 4196, in which 2048 of the 4000 are computed.
  TimedResult result = executed(fixture, quotasOf({0}, 1));
  CHECK(result.decode.waitNs == 0);
  CHECK(result.tokenNs[0] == doctest::Approx(100 + 4096 + (4000 - 2048) + 55 + 30));
}

TEST_CASE("to begin a read takes the processor's time") {
  PlanFixture fixture(tokensOf(3, 2, {0, 1}), 2, 2);
  fixture.costs.contention.submitNsPerByte = 0.5;
  // 2048 for each of the two while the first one is read, which is there at 4196.
  TimedResult result = executed(fixture, quotasOf({0}, 2));
  CHECK(result.decode.computeNs == doctest::Approx(100 + 2 * 2048 + 2 * 55 + 30));
  CHECK(result.tokenNs[0] == doctest::Approx(8377));
}

TEST_CASE("a disk that has rested takes a while before it reads again") {
  PlanFixture fixture(tokensOf(3, 1, {0, 1}), 1, 1);
  fixture.costs.layers[0].before = {kDiskRestNs, 0};
  fixture.costs.contention.wakeNs = 700;
  TimedResult result = executed(fixture, quotasOf({0}, 1));
  for (double tokenNs : result.tokenNs)
    CHECK(tokenNs == doctest::Approx(kDiskRestNs + 700 + 4096 + 55 + 30));
}

TEST_CASE("fractions that leave nothing are refused") {
  PlanFixture fixture(tokensOf(3, 1, {0}), 1, 1);
  fixture.costs.contention.readingWhileComputing = 0;
  CHECK_FALSE(check(fixture.problem()).isOk());
  fixture.costs.contention.readingWhileComputing = 1;
  CHECK(check(fixture.problem()).isOk());
}

TEST_CASE("without a free page a read begins when the expert before it was computed") {
  // 100 + 4096 + 55 + 4096 + 55 + 30.
  TimedResult result = executed(PlanFixture(tokensOf(3, 2, {0, 1}), 2, 1), quotasOf({0}, 1));
  CHECK(result.tokenNs[0] == doctest::Approx(8432));
}

TEST_CASE("experts in memory are computed first, without a check") {
  PlanFixture fixture(tokensOf(3, 2, {0, 1, 0, 2, 0, 2}), 2, 3);
  fixture.costs.layers[0].expert.firstNs = 5000;
  // 2 is read from 100 on in its page, while 0 is computed until 5100: no wait.
  TimedResult result = executed(fixture, quotasOf({2}, 1));
  CHECK(result.tokenNs[1] == doctest::Approx(100 + 5000 + 5005 + 30));
  CHECK(result.passes[1].counts.waitNs == 0);
  CHECK(result.passes[1].counts.cache.stalled == 0);
  CHECK(result.tokenNs[2] == doctest::Approx(100 + 5000 + 5000 + 30));
  CHECK(result.passes[2].counts.cache.ready == 2);
}

TEST_CASE("a prompt's tokens share the experts and do not count as decoded ones") {
  std::vector<uint16_t> chosen{0, 0, 1, 0};
  LayerRoutes layer{2, 1, chosen};
  std::vector<TraceStep> steps{{3, true}, {1, false}};
  PlanFixture fixture(makeTrace(std::span(&layer, 1), steps).value(), 1, 2);
  TimedResult result = executed(fixture, quotasOf({2}, 0));
  // 100 + 2 * 10, then 0 with two tokens while 1 is read: 8312 + 5 + 50 + 30.
  CHECK(result.prefillNs == doctest::Approx(120 + 8192 + 55 + 30));
  CHECK(result.prefillTokens == 3);
  CHECK(result.prefill.cache.misses == 2);
  CHECK(result.tokenNs == std::vector<double>{180});
  CHECK(result.decode.cache == CacheCounts{.hits = 1, .ready = 1});
}

TEST_CASE("what the cache starts with is there") {
  PlanFixture fixture(tokensOf(3, 1, {2}), 1, 2);
  PlanSettings settings = quotasOf({2}, 0);
  settings.start = {{2}};
  TimedResult result = executed(fixture, settings);
  CHECK(result.tokenNs[0] == doctest::Approx(180));
  CHECK(result.startBytes == 4096);
}

/// Two layers; a token takes an expert of each: first 0 and 0, then 1 and 1. The second layer's
/// choice is prefetched.
static PlanFixture twoLayers(std::vector<uint32_t> prefetched) {
  std::vector<uint16_t> chosen{0, 1};
  std::vector<LayerRoutes> layers(2, {3, 1, chosen});
  std::vector<TraceStep> steps(2);
  PlanFixture fixture(makeTrace(layers, steps).value(), 1, 4);
  LayerPredictions made{Predictor::kGate, 1, 1, 1, {}};
  for (uint32_t expert : prefetched)
    made.candidates.push_back({expert, kFixedPointOne / 2});
  fixture.predictions = {made};
  return fixture;
}

static PlanSettings prefetching(std::vector<uint32_t> quotas, uint32_t staging) {
  PlanSettings settings = quotasOf(std::move(quotas), staging);
  settings.prefetches = {{}, {Predictor::kGate, 1, 1, 1, 0}};
  return settings;
}

TEST_CASE("a right prefetch is read beside the layer before and waited for less") {
  // Layer 0 from 107 on: its read until 4203, the prefetch after it until 8299; computed at 4258,
  // the second layer begins at 4358 and has its expert at 8299.
  TimedResult result = executed(twoLayers({0, 1}), prefetching({0, 0}, 2));
  CHECK(result.passes[0].beginNs == doctest::Approx(107));
  CHECK(result.passes[0].counts.cache == CacheCounts{.misses = 1,
                                                     .evictions = 1,
                                                     .bytesRead = 8192,
                                                     .prefetchesRead = 1,
                                                     .prefetchBytes = 4096,
                                                     .stalled = 1});
  CHECK(result.passes[1].beginNs == doctest::Approx(4358));
  CHECK(result.passes[1].counts.cache ==
        CacheCounts{.misses = 1, .evictions = 1, .useful = 1, .stalled = 1});
  CHECK(result.tokenNs[0] == doctest::Approx(8299 + 55 + 30));
}

TEST_CASE("a prefetch that has arrived is there as if it had been kept") {
  PlanFixture fixture = twoLayers({0, 1});
  fixture.costs.layers[1].before.firstNs = 6000;
  TimedResult result = executed(fixture, prefetching({0, 0}, 2));
  CHECK(result.passes[1].counts.cache.ready == 1);
  CHECK(result.tokenNs[0] == doctest::Approx(4258 + 6000 + 55 + 30));
  CHECK(result.passes[1].counts.waitNs == 0);
}

TEST_CASE("a wrong prefetch gives its page back, and its read delays what is wanted") {
  // The wrong read ends at 8299, the wanted one, begun at 4358, after it.
  TimedResult result = executed(twoLayers({1, 1}), prefetching({0, 0}, 2));
  CHECK(result.tokenNs[0] == doctest::Approx(8299 + 4096 + 55 + 30));
  CHECK(result.passes[1].counts.cache ==
        CacheCounts{.misses = 1, .evictions = 1, .bytesRead = 4096, .stalled = 1, .cancelled = 1});
}

TEST_CASE("an expert that fills up a list of candidates is prefetched once") {
  PlanFixture fixture = twoLayers({0, 0, 1, 1});
  fixture.predictions[0].perToken = 2;
  PlanSettings settings = prefetching({0, 0}, 3);
  settings.prefetches[1].candidates = settings.prefetches[1].reads = 2;
  TimedResult result = executed(fixture, settings);
  CHECK(result.decode.cache.prefetchesRead == 2);
  CHECK(result.decode.cache.useful == 2);
}

TEST_CASE("a prefetch is not read where the demand leaves it no page") {
  // The page is layer 0's until its layer pass ends.
  TimedResult result = executed(twoLayers({0, 1}), prefetching({0, 0}, 1));
  CHECK(result.passes[0].endNs == doctest::Approx(107 + 4096 + 55));
  CHECK(result.tokenNs[0] == doctest::Approx(107 + 4096 + 55 + 4096 + 55 + 30));
  CHECK(result.passes[1].counts.cache.useful == 1);
}

TEST_CASE("quantiles and means are of the decoded tokens") {
  TimedResult result;
  CHECK(result.meanNs() == 0);
  CHECK(result.quantileNs(0.5) == 0);
  result.tokenNs = {40, 10, 20, 30};
  CHECK(result.meanNs() == 25);
  CHECK(result.meanNs(1, 3) == 15);
  CHECK(result.quantileNs(0.5) == 20);
  CHECK(result.quantileNs(0.95) == 40);
}

TEST_CASE("settings that verify refuses are refused") {
  PlanFixture fixture(tokensOf(3, 1, {2}), 1, 2);
  CHECK(replayInTime(fixture.problem(), quotasOf({2}, 1)).status().message() ==
        "quotas and staging have 3 pages, the pool has 2");
}

//===-- What holds of all ---------------------------------------------------------------------===//

/// Layers of four to eleven experts of up to five pages, prompts and decode steps.
static PlanFixture randomProblem(std::mt19937 &random) {
  const uint32_t layers = 2 + random() % 4, experts = 4 + random() % 8, topK = 1 + random() % 4;
  PlanFixture fixture(
      randomTrace(random, layers, experts, topK, stepsOfWindows(2, 40, random() % 3 * 8, 5)), topK,
      0);
  for (auto &layer : fixture.recordBytes)
    for (uint64_t &bytes : layer)
      bytes = 4096 * (1 + random() % 5);
  fixture.predictions = goodPrefetches(random, fixture.trace, std::min(experts, topK + 2));
  fixture.poolPages = 5 * experts * layers;
  return fixture;
}

static PlanSettings randomSettings(std::mt19937 &random, const PlanFixture &fixture) {
  std::vector<uint32_t> quotas;
  for (const auto &layer : fixture.recordBytes)
    quotas.push_back(static_cast<uint32_t>(random() % (3 * layer.size())));
  PlanSettings settings = quotasOf(quotas, static_cast<uint32_t>(5 + random() % 12));
  settings.rules.survival = static_cast<PromptSurvival>(random() % 3);
  settings.start.assign(quotas.size(), {0, 1});
  return settings;
}

TEST_CASE("hits, misses, evictions and bytes are the replay's, pass by pass, under every rule") {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    PlanFixture fixture = randomProblem(random);
    PlanSettings settings = randomSettings(random, fixture);
    for (CacheRules rules : allRules()) {
      rules.survival = settings.rules.survival;
      settings.rules = rules;
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.sharing));
      ReplayResult expected =
          replayTrace(fixture.trace, replayCacheOf(fixture.problem(), settings)).value();
      TimedResult result = executed(fixture, settings);
      REQUIRE(result.passes.size() == expected.passes.size());
      for (size_t p = 0; p < expected.passes.size(); ++p)
        REQUIRE(withoutStalls(result.passes[p].counts.cache) == expected.passes[p]);
      CHECK(result.startBytes == expected.startBytes);
    }
  }
}

/// The second layer and all later ones are prefetched.
static std::vector<PrefetchRule> randomPrefetches(std::mt19937 &random,
                                                  const PlanFixture &fixture) {
  std::vector<PrefetchRule> prefetches(fixture.recordBytes.size());
  for (uint32_t layer = 1; layer < prefetches.size(); ++layer) {
    const LayerPredictions &made = fixture.predictions[0];
    prefetches[layer] = {random() % 2 ? Predictor::kGate : Predictor::kAdaptiveGate,
                         static_cast<uint8_t>(1 + random() % std::min(layer, kMostAhead)),
                         static_cast<uint16_t>(1 + random() % made.perToken),
                         static_cast<uint16_t>(1 + random() % 4), 0};
  }
  return prefetches;
}

TEST_CASE("prefetches change what is read and when, not what hits, misses and leaves") {
  uint64_t useful = 0, cancelled = 0;
  for (uint32_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    PlanFixture fixture = randomProblem(random);
    PlanSettings settings = randomSettings(random, fixture);
    for (CacheRules rules : allRules()) {
      rules.survival = settings.rules.survival;
      settings.rules = rules;
      settings.prefetches.clear();
      TimedResult without = executed(fixture, settings);
      settings.prefetches = randomPrefetches(random, fixture);
      TimedResult with = executed(fixture, settings);
      uint64_t read = 0, used = 0;
      for (size_t p = 0; p < with.passes.size(); ++p) {
        const CacheCounts &a = without.passes[p].counts.cache, &b = with.passes[p].counts.cache;
        REQUIRE(a.hits == b.hits);
        REQUIRE(a.misses == b.misses);
        REQUIRE(a.evictions == b.evictions);
        REQUIRE(b.useful <= b.misses);
        read += b.prefetchesRead + b.prefetchesRetained;
        used += b.useful + b.cancelled;
        // No more than are named of one layer, three layers ahead.
        REQUIRE(used <= read);
        REQUIRE(read - used <= 3 * fixture.predictions[0].perToken);
      }
      useful += with.decode.cache.useful;
      cancelled += with.decode.cache.cancelled;
      const double ns =
          with.prefillNs + std::accumulate(with.tokenNs.begin(), with.tokenNs.end(), 0.0);
      const double compute = with.decode.computeNs + with.prefill.computeNs;
      CHECK(ns == doctest::Approx(compute + with.decode.waitNs + with.prefill.waitNs));
      CHECK(ns >= compute);
    }
  }
  CHECK(useful > 1000);
  CHECK(cancelled > 1000);
}

TEST_CASE("a token takes at least its computing and what it reads, and no more than both") {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    PlanFixture fixture = randomProblem(random);
    TimedResult result = executed(fixture, randomSettings(random, fixture));
    const double ns =
        result.prefillNs + std::accumulate(result.tokenNs.begin(), result.tokenNs.end(), 0.0);
    const double compute = result.decode.computeNs + result.prefill.computeNs;
    const double wait = result.decode.waitNs + result.prefill.waitNs;
    const double read =
        static_cast<double>(result.decode.cache.bytesRead + result.prefill.cache.bytesRead);
    CHECK(ns == doctest::Approx(compute + wait));
    CHECK(result.diskBusyNs == doctest::Approx(read));
    CHECK(ns >= std::max(compute, read) * (1 - 1e-9));
    CHECK(ns <= (compute + read) * (1 + 1e-9));
  }
}

TEST_CASE("a faster disk is waited for less") {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    PlanFixture fixture = randomProblem(random);
    PlanSettings settings = randomSettings(random, fixture);
    double before = executed(fixture, settings).decode.waitNs;
    for (double rate : {2e9, 8e9, 64e9}) {
      fixture.reads.bytesPerSecond[0].value = rate;
      double wait = executed(fixture, settings).decode.waitNs;
      CHECK(wait <= before);
      before = wait;
    }
  }
}

TEST_CASE("more pages to pass through never cost time where nothing is kept") {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    PlanFixture fixture = randomProblem(random);
    PlanSettings settings = randomSettings(random, fixture);
    settings.start.clear();
    std::fill(settings.allotment.quotaPages.begin(), settings.allotment.quotaPages.end(), 0);
    double before = 1e300;
    for (uint32_t staging : {5, 10, 20, 40}) {
      settings.allotment.stagingPages = staging;
      double ns = executed(fixture, settings).meanNs();
      CHECK(ns <= before * (1 + 1e-9));
      before = ns;
    }
  }
}
