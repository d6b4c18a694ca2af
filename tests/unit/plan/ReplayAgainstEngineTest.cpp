// A trace as calibration makes it, executed by the replay, has to count what an engine counts that
// computes the same tokens with reads that are complete at once: layer pass by layer pass,
// prefetches included.
#include "compiler/plan/CacheReplay.h"

#include "compiler/calibrate/Layerwise.h"
#include "runtime/experts/Candidates.h"
#include "tests/unit/engine/EngineFixture.h"
#include "tests/unit/engine/SynchronousQueue.h"
#include "tests/unit/policy/AllCacheRules.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;
using namespace moert::test;

namespace {

/// For each token: what each layer chose, and what the gates of the layers before predicted.
struct Trace : LayerObserver {
  struct Said {
    uint32_t ahead = 0;
    std::vector<PrefetchCandidate> candidates;
  };
  std::vector<std::vector<uint32_t>> chosen[kLayers]; // [layer][token]
  std::vector<std::vector<Said>> said[kLayers];       // For the layer, [token][ahead - 1].

  Status onRouted(const Routed &routed) override {
    for (size_t token = 0; token < kPrompt.size(); ++token) {
      std::span<const int32_t> experts = routed.experts.row(token);
      std::vector<uint32_t> wanted(experts.begin(), experts.end());
      std::sort(wanted.begin(), wanted.end());
      chosen[routed.moeLayer].push_back(wanted);
    }
    return {};
  }
  Status onLaterRouter(const Routed &routed, uint32_t ahead, LayerRows<float> scores,
                       const Router &router) override {
    std::vector<std::vector<Said>> &layer = said[routed.moeLayer + ahead];
    layer.resize(kPrompt.size());
    for (size_t token = 0; token < kPrompt.size(); ++token) {
      std::vector<float> probabilities(16);
      std::vector<uint32_t> sums(kExperts);
      Said one{ahead, {}};
      one.candidates.reserve(kExperts);
      router.computeLikelihoods(scores.row(token).data(), probabilities.data());
      addProbabilities(probabilities, 1, sums);
      listLikeliest(sums, kExperts, one.candidates);
      layer[token].push_back(one);
    }
    return {};
  }
};

Trace traceOf(const Model &model) {
  LayerwiseOptions options;
  options.windowTokens = static_cast<uint32_t>(kPrompt.size());
  options.windows = 1;
  options.laterRouters = kMostAhead;
  options.memory = BudgetSize{uint64_t(1) << 30, {}};
  options.io = IoBackend::kThreads;
  auto executor =
      LayerwiseExecutor::create(model, options, accountLayerwise(model, options).value());
  REQUIRE_MESSAGE(executor.isOk(), executor.status().message());
  Trace trace;
  std::vector<std::byte> in, out;
  for (uint32_t segment = 0; segment < (*executor)->segments(); ++segment) {
    out.resize((*executor)->stateBytes(segment + 1) * kPrompt.size());
    REQUIRE((*executor)->begin(segment).isOk());
    REQUIRE((*executor)->execute(kPrompt, in, out, trace).isOk());
    std::swap(in, out);
  }
  return trace;
}

ReplayCache replayOf(const Artifact &artifact, const Plan &plan) {
  ReplayCache cache;
  cache.pageBytes = artifact.pageBytes;
  cache.stagingPages = plan.stagingPages;
  cache.rules = plan.rules;
  for (size_t l = 0; l < kLayers; ++l) {
    ReplayLayer layer;
    layer.recordBytes = recordBytesOf(artifact.moeLayers[l]);
    layer.quotaPages = plan.quotaPages[l];
    layer.start = plan.start[l].experts;
    layer.startUses = plan.start[l].uses;
    layer.startTokens = plan.startTokens;
    layer.pinned = plan.pinned[l];
    cache.layers.push_back(layer);
  }
  return cache;
}

/// The layer pass of a layer for one token, with the prefetches that are made there.
CacheCounts runPass(CacheReplay &replay, const Trace &trace, const Plan &plan, uint32_t layer,
                    size_t token) {
  std::vector<LayerPrefetch> prefetches;
  for (uint32_t later = layer + 1; later < kLayers; ++later)
    for (const Trace::Said &said : trace.said[later][token])
      if (later - layer == said.ahead && plan.prefetches[later].predictsFrom(said.ahead))
        prefetches.push_back({later, plan.prefetches[later], said.candidates});
  std::vector<uint32_t> uses(kTopK, 1);
  return replay.runPass(layer, {trace.chosen[layer][token], uses, 1}, prefetches);
}

Plan planWith(const CacheRules &rules, Predictor predictor) {
  Plan plan = smallPlan();
  plan.rules = rules;
  plan.prefetches = {{}, {predictor, 1, kExperts, 3, 0}, {predictor, 2, 4, 2, kFixedPointOne / 50}};
  plan.pinned = {{2}, {}, {5}};
  plan.start = {{{1, 2, 3}, {4, 3, 2}}, {{7}, {1}}, {{}, {}}};
  plan.startTokens = 5;
  return plan;
}

std::vector<std::pair<CacheRules, Predictor>> allCases() {
  std::vector<std::pair<CacheRules, Predictor>> cases;
  for (const CacheRules &rules : allRules())
    if (rules.eviction != EvictionPolicy::kImportance) // The trace does not have importances.
      for (Predictor predictor : {Predictor::kGate, Predictor::kAdaptiveGate})
        cases.emplace_back(rules, predictor);
  return cases;
}

} // namespace

TEST_CASE("a replayed trace counts what an engine with synchronous reads counts, pass by pass") {
  TemporaryArtifact plain;
  const Trace trace = traceOf(*Model::open(plain.path).value());
  for (const auto &[rules, predictor] : allCases()) {
    CAPTURE(int(rules.eviction));
    CAPTURE(int(rules.sharing));
    CAPTURE(int(predictor));
    const Plan plan = planWith(rules, predictor);
    TemporaryArtifact artifact(modelWith({plan}));
    auto model = Model::open(artifact.path);
    REQUIRE_MESSAGE(model.isOk(), model.status().message());
    EngineOptions options = optionsOf(**model, plan);
    options.readQueue = makeSynchronousQueue;
    Loaded loaded = load(artifact.path, options);
    CacheReplay replay = CacheReplay::create(replayOf((*model)->artifact(), plan)).value();
    uint64_t useful = 0;
    Silent observer;
    replay.beginPrompt();
    for (size_t token = 0; token < kPrompt.size(); ++token) {
      SessionTokens one = {loaded.session.get(), {&kPrompt[token], 1}, LogitsWanted::kLast};
      REQUIRE(loaded.engine->step({&one, 1}, observer).isOk());
      // Some prefetches are begun after the layer pass that made them and count with the next one.
      uint64_t bytes = 0, expectedBytes = 0, prefetchBytes = 0, expectedPrefetchBytes = 0;
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        CacheCounts expected = runPass(replay, trace, plan, layer, token);
        const LayerProfile &counted = loaded.engine->lastStep()[layer];
        REQUIRE(counted.hits == expected.hits);
        REQUIRE(counted.misses == expected.misses);
        bytes += counted.bytesRead;
        prefetchBytes += counted.prefetchBytes;
        expectedBytes += expected.bytesRead;
        expectedPrefetchBytes += expected.prefetchBytes;
        REQUIRE(counted.useful == expected.useful);
        REQUIRE(counted.cancelled == expected.cancelled);
        REQUIRE(counted.ready == expected.hits + expected.useful);
        useful += counted.useful;
      }
      REQUIRE(bytes == expectedBytes);
      REQUIRE(prefetchBytes == expectedPrefetchBytes);
    }
    CHECK(useful > 0);
  }
}
