// A trace as calibration makes it, played by the replay, has to count what an engine counts that
// computes the same tokens with reads that are complete at once: play by play, guesses included.
#include "compiler/plan/CacheReplay.h"

#include "compiler/calibrate/Layerwise.h"
#include "runtime/predict/Candidates.h"
#include "tests/unit/engine/EngineFixture.h"
#include "tests/unit/engine/SynchronousQueue.h"
#include "tests/unit/policy/AllCacheRules.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;
using namespace moert::test;

namespace {

/// Of each token: what each layer chose, and what the gates of the layers before said of it.
struct Trace : LayerObserver {
  struct Said {
    uint32_t ahead = 0;
    std::vector<GuessCandidate> candidates;
  };
  std::vector<std::vector<uint32_t>> chosen[kLayers]; // [layer][token]
  std::vector<std::vector<Said>> said[kLayers];       // Of the layer, [token][ahead - 1].
  const KernelTable *kernels = nullptr;

  Status onRouted(const Routed &routed) override {
    for (size_t token = 0; token < kPrompt.size(); ++token) {
      std::span<const int32_t> experts = routed.experts.row(token);
      std::vector<uint32_t> wanted(experts.begin(), experts.end());
      std::sort(wanted.begin(), wanted.end());
      chosen[routed.moeLayer].push_back(wanted);
    }
    return {};
  }
  Status onLaterRouter(const Routed &routed, uint32_t ahead, LayerRows<float> scores) override {
    std::vector<std::vector<Said>> &layer = said[routed.moeLayer + ahead];
    layer.resize(kPrompt.size());
    for (size_t token = 0; token < kPrompt.size(); ++token) {
      std::vector<float> probabilities(16);
      std::vector<uint32_t> shares(kExperts);
      Said one{ahead, {}};
      one.candidates.reserve(kExperts);
      kernels->softmax(scores.row(token).data(), kExperts, probabilities.data());
      addShares(probabilities, 1, shares);
      listLikeliest(shares, kExperts, one.candidates);
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
  auto player = LayerwisePlayer::create(model, options, accountLayerwise(model, options).value());
  REQUIRE_MESSAGE(player.isOk(), player.status().message());
  Trace trace;
  trace.kernels = &(*player)->kernels();
  std::vector<std::byte> in, out;
  for (uint32_t segment = 0; segment < (*player)->segments(); ++segment) {
    out.resize((*player)->stateBytes(segment + 1) * kPrompt.size());
    REQUIRE((*player)->begin(segment).isOk());
    REQUIRE((*player)->play(kPrompt, in, out, trace).isOk());
    std::swap(in, out);
  }
  return trace;
}

ReplayCache replayOf(const Artifact &artifact, const Plan &plan) {
  ReplayCache cache;
  cache.pageBytes = artifact.pageBytes;
  cache.transitPages = plan.transitPages;
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

/// The play of a layer for one token, with the guesses that are made there.
ReplayCounts play(CacheReplay &replay, const Trace &trace, const Plan &plan, uint32_t layer,
                  size_t token) {
  std::vector<LayerGuess> guesses;
  for (uint32_t later = layer + 1; later < kLayers; ++later)
    for (const Trace::Said &said : trace.said[later][token])
      if (plan.guesses[later].ahead == said.ahead && later - layer == said.ahead &&
          plan.guesses[later].predictor == Predictor::kGate)
        guesses.push_back({later, plan.guesses[later], said.candidates});
  std::vector<uint32_t> uses(kTopK, 1);
  return replay.play(layer, {trace.chosen[layer][token], uses, 1}, guesses);
}

Plan planWith(const CacheRules &rules) {
  Plan plan = smallPlan();
  plan.rules = rules;
  plan.guesses = {
      {}, {Predictor::kGate, 1, kExperts, 3, 0}, {Predictor::kGate, 2, 4, 2, kWholeShare / 50}};
  plan.pinned = {{2}, {}, {5}};
  plan.start = {{{1, 2, 3}, {4, 3, 2}}, {{7}, {1}}, {{}, {}}};
  plan.startTokens = 5;
  return plan;
}

} // namespace

TEST_CASE("a replayed trace counts what an engine with synchronous reads counts, play by play") {
  TemporaryArtifact plain;
  const Trace trace = traceOf(*Model::open(plain.path).value());
  for (const CacheRules &rules : allRules()) {
    CAPTURE(int(rules.eviction));
    CAPTURE(int(rules.sharing));
    const Plan plan = planWith(rules);
    TemporaryArtifact artifact(modelWith({plan}));
    auto model = Model::open(artifact.path);
    REQUIRE_MESSAGE(model.isOk(), model.status().message());
    EngineOptions options = optionsOf(**model, plan);
    options.readQueue = makeSynchronousQueue;
    Loaded loaded = load(artifact.path, options);
    CacheReplay replay = CacheReplay::create(replayOf((*model)->artifact(), plan)).value();
    uint64_t adopted = 0;
    Silent observer;
    replay.beginPrompt();
    for (size_t token = 0; token < kPrompt.size(); ++token) {
      SessionTokens one = {loaded.session.get(), {&kPrompt[token], 1}, LogitsWanted::kLast};
      REQUIRE(loaded.engine->step({&one, 1}, observer).isOk());
      // Some guesses are begun behind the play that made them and count with the next one.
      uint64_t bytes = 0, expectedBytes = 0, guessBytes = 0, expectedGuessBytes = 0;
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        ReplayCounts expected = play(replay, trace, plan, layer, token);
        const LayerProfile &counted = loaded.engine->lastStep()[layer];
        REQUIRE(counted.hits == expected.hits);
        REQUIRE(counted.misses == expected.misses);
        bytes += counted.bytesRead;
        guessBytes += counted.guessBytes;
        expectedBytes += expected.bytesRead;
        expectedGuessBytes += expected.guessBytes;
        REQUIRE(counted.adopted == expected.adopted);
        REQUIRE(counted.refuted == expected.refuted);
        REQUIRE(counted.present == expected.hits + expected.adopted);
        adopted += counted.adopted;
      }
      REQUIRE(bytes == expectedBytes);
      REQUIRE(guessBytes == expectedGuessBytes);
    }
    CHECK(adopted > 0);
  }
}
