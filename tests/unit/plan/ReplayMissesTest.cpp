// Plans with miss rules in the replays beside an engine that decodes the same tokens with reads
// that are complete at once. With the scores that the engine's own routers gave under the rule,
// every layer pass counts the same.
#include "compiler/plan/TimedReplay.h"

#include "runtime/engine/Footprint.h"
#include "tests/unit/engine/EngineFixture.h"
#include "tests/unit/engine/SynchronousQueue.h"
#include "tests/unit/plan/RecordScores.h"
#include "tests/unit/policy/LossyRules.h"

#include <doctest/doctest.h>
#include <map>

using namespace moec;
using namespace moert;
using namespace moert::test;

namespace {

/// Waits, and has the engine report the scores nevertheless.
constexpr MissRule kWatching = {.action = MissAction::kSubstitute, .waitUpTo = kFixedPointOne};

/// What an engine's routers and predictors gave each token, and what it counted.
struct Recording : StepObserver {
  std::vector<LayerScores> scores = std::vector<LayerScores>(kLayers);
  /// For the layer, from so many layers before: of all tokens.
  std::map<uint32_t, std::vector<PrefetchCandidate>> predicted[kLayers];
  std::vector<std::vector<LayerProfile>> counted; // [token][layer]

  Status onLogits(Session &, uint32_t, std::span<const float>) override { return {}; }
  void onMissRule(uint32_t moeLayer, uint32_t, const MissInputs &inputs) override {
    recordScores(inputs, scores[moeLayer]);
  }
  void onPredict(uint32_t moeLayer, uint32_t ahead, uint32_t,
                 std::span<const PrefetchCandidate> named) override {
    std::vector<PrefetchCandidate> &all = predicted[moeLayer][ahead];
    all.insert(all.end(), named.begin(), named.end());
  }
};

struct RouteRecorder : StepObserver {
  std::vector<uint16_t> chosen[kLayers];

  Status onLogits(Session &, uint32_t, std::span<const float>) override { return {}; }
  void onRoute(Session &, uint32_t layer, uint32_t, std::span<const int32_t> experts,
               std::span<const float>) override {
    chosen[layer].insert(chosen[layer].end(), experts.begin(), experts.end());
  }
};

Plan planWith(const MissRule &rule, CacheSharing sharing, Predictor predictor) {
  Plan plan = smallPlan();
  plan.quotaPages.assign(kLayers, 9);
  plan.rules = {.eviction = EvictionPolicy::kReuseDistance, .sharing = sharing};
  plan.miss = rule;
  if (predictor != Predictor::kOff)
    plan.prefetches = {
        {}, {predictor, 1, kExperts, 2, 0}, {predictor, 2, kExperts, 2, kFixedPointOne / 100}};
  return plan;
}

/// A model of experts of two and three slices, decoded token by token.
struct Decoded {
  explicit Decoded(const Plan &decodedPlan) : plan(decodedPlan) {
    SyntheticOptions synthetic = modelWith({plan});
    synthetic.slices = {{WeightKind::kInt2, WeightKind::kInt2},
                        {WeightKind::kInt2, WeightKind::kInt2, WeightKind::kInt4}};
    const TemporaryArtifact file(synthetic);
    auto model = Model::open(file.path);
    REQUIRE_MESSAGE(model.isOk(), model.status().message());
    artifact = (*model)->artifact();
    EngineOptions options = optionsOf(**model, plan);
    options.readQueue = makeSynchronousQueue;
    Loaded loaded = load(file.path, options);
    for (const int32_t &token : kPrompt) {
      SessionTokens one = {loaded.session.get(), {&token, 1}, LogitsWanted::kLast};
      REQUIRE(loaded.engine->step({&one, 1}, recording).isOk());
      const auto counted = loaded.engine->lastStep();
      recording.counted.emplace_back(counted.begin(), counted.end());
    }
  }

  Plan plan;
  Artifact artifact;
  Recording recording;
};

/// The problem of replaying recorded scores with a model's records.
struct Replayed {
  Replayed(const Decoded &decoded, const Recording &recording) : scores(recording.scores) {
    std::vector<LayerRoutes> routes;
    for (uint32_t l = 0; l < kLayers; ++l) {
      const MoeLayer &layer = decoded.artifact.moeLayers[l];
      recordBytes.push_back(recordBytesOf(layer));
      sliceEnds.emplace_back();
      for (const Expert &expert : layer.experts) {
        sliceEnds[l].emplace_back();
        for (const Slice &slice : expert.slices)
          sliceEnds[l].back().push_back(slice.offset + slice.bytes);
      }
      topK.push_back(kTopK);
      costs.layers.push_back({.before = {100, 10}, .expert = {50, 20}});
      routes.push_back({kExperts, kTopK, scores[l].chosen});
      for (const auto &[ahead, named] : recording.predicted[l])
        predictions.push_back({Predictor::kGate, l, ahead, kExperts, named});
    }
    std::vector<TraceStep> steps(kPrompt.size());
    steps.front().beginsPrompt = true;
    trace = makeTrace(routes, steps).value();
    settings.allotment = {decoded.plan.stagingPages, decoded.plan.quotaPages};
    settings.rules = decoded.plan.rules;
    settings.prefetches = decoded.plan.prefetches;
    settings.miss = decoded.plan.miss;
  }

  PlanProblem problem() const {
    return {.trace = &trace,
            .predictions = predictions,
            .recordBytes = recordBytes,
            .sliceEnds = sliceEnds,
            .scores = scores,
            .topK = topK,
            .pageBytes = 4096,
            .poolPages = settings.allotment.totalPages(),
            .reads = &reads,
            .costs = &costs};
  }

  RoutingTrace trace;
  std::vector<LayerScores> scores;
  std::vector<LayerPredictions> predictions;
  std::vector<std::vector<uint64_t>> recordBytes;
  std::vector<std::vector<std::vector<uint64_t>>> sliceEnds;
  std::vector<uint32_t> topK;
  ReadTable reads{{4096}, {1}, {{1e9, Origin::kMeasured}}};
  StepCosts costs;
  PlanSettings settings;
};

MissCounts changesOf(const LayerProfile &counted) {
  return {counted.lowered, counted.skipped, counted.substituted};
}

} // namespace

TEST_CASE("replays of a lossy plan count what the engine counts, layer pass by layer pass") {
  for (const MissRule &rule : kLossyRules)
    for (CacheSharing sharing : {CacheSharing::kLayerQuotas, CacheSharing::kOnePool})
      for (Predictor predictor : {Predictor::kOff, Predictor::kGate, Predictor::kAdaptiveGate}) {
        CAPTURE(missRuleText(rule));
        CAPTURE(int(sharing));
        CAPTURE(int(predictor));
        const Decoded decoded(planWith(rule, sharing, predictor));
        const Replayed replayed(decoded, decoded.recording);
        const PlanProblem problem = replayed.problem();
        REQUIRE(check(problem).message() == "");
        REQUIRE(verify(problem, replayed.settings).message() == "");
        const TimedResult timed =
            replayInTime(problem, replayed.settings, {.keepsPasses = true}).value();
        const ReplayResult untimed =
            replayTrace(replayed.trace, replayCacheOf(problem, replayed.settings), rule,
                        replayed.scores)
                .value();
        MissCounts all;
        for (size_t pass = 0; pass < replayed.trace.passes.size(); ++pass) {
          const LayerProfile &counted = decoded.recording.counted[pass / kLayers][pass % kLayers];
          const TimedCounts &counts = timed.passes[pass].counts;
          all += counts.misses;
          REQUIRE(counts.misses == changesOf(counted));
          REQUIRE(counts.cache.hits == counted.hits);
          REQUIRE(counts.cache.misses == counted.misses);
          if (predictor != Predictor::kOff) // replayTrace() has none.
            continue;
          REQUIRE(counts.cache.bytesRead == counted.bytesRead);
          REQUIRE(untimed.changes[pass] == changesOf(counted));
          REQUIRE(untimed.passes[pass].hits == counted.hits);
          REQUIRE(untimed.passes[pass].misses == counted.misses);
          REQUIRE(untimed.passes[pass].bytesRead == counted.bytesRead);
        }
        CHECK(all.lowered + all.skipped + all.substituted > 0);
        CHECK(timed.forbiddenEvents == 0);
      }
}

TEST_CASE("a trace that was recorded waiting is exact for the first MoE layer of a lossy plan") {
  // Its routers see nothing that an expert computed; later layers do.
  const Decoded waiting(planWith(kWatching, CacheSharing::kLayerQuotas, Predictor::kOff));
  for (const MissRule &rule : kLossyRules) {
    CAPTURE(missRuleText(rule));
    const Decoded decoded(planWith(rule, CacheSharing::kLayerQuotas, Predictor::kOff));
    const Replayed replayed(decoded, waiting.recording);
    const ReplayResult result =
        replayTrace(replayed.trace, replayCacheOf(replayed.problem(), replayed.settings), rule,
                    replayed.scores)
            .value();
    for (size_t token = 0; token < kPrompt.size(); ++token) {
      const LayerProfile &counted = decoded.recording.counted[token][0];
      REQUIRE(result.changes[token * kLayers] == changesOf(counted));
      REQUIRE(result.passes[token * kLayers].hits == counted.hits);
      REQUIRE(result.passes[token * kLayers].bytesRead == counted.bytesRead);
    }
  }
}

TEST_CASE("a replay counts what an engine counts that lowers experts of prompts") {
  Plan plan = planWith({.action = MissAction::kLowerPrompts, .waitUpTo = part(0.5)},
                       CacheSharing::kLayerQuotas, Predictor::kOff);
  plan.prefillChunk = 5;
  SyntheticOptions synthetic = modelWith({plan});
  synthetic.slices = {{WeightKind::kInt2, WeightKind::kInt2}};
  const TemporaryArtifact file(synthetic);
  const auto model = Model::open(file.path);
  EngineOptions options = optionsOf(**model, plan);
  options.readQueue = makeSynchronousQueue;
  Loaded loaded = load(file.path, options);
  RouteRecorder routed;
  std::vector<TraceStep> steps;
  std::vector<LayerProfile> counted;
  constexpr size_t kPromptTokens = 9; // A chunk of five tokens, and one of four.
  for (size_t begin = 0; begin < kPrompt.size(); begin += steps.back().tokens) {
    const bool isPrompt = begin < kPromptTokens;
    const size_t count = isPrompt ? std::min<size_t>(5, kPromptTokens - begin) : 1;
    const SessionTokens part = {loaded.session.get(), std::span(kPrompt).subspan(begin, count),
                                LogitsWanted::kNowhere, isPrompt};
    REQUIRE(loaded.engine->step({&part, 1}, routed).isOk());
    steps.push_back({static_cast<uint32_t>(count), begin == 0, isPrompt});
    const auto layers = loaded.engine->lastStep();
    counted.insert(counted.end(), layers.begin(), layers.begin() + kLayers);
  }
  ReplayCache cache;
  cache.pageBytes = 4096;
  cache.stagingPages = plan.stagingPages;
  cache.rules = plan.rules;
  std::vector<LayerRoutes> routes;
  for (uint32_t l = 0; l < kLayers; ++l) {
    ReplayLayer &layer = cache.layers.emplace_back();
    layer.recordBytes = recordBytesOf((*model)->artifact().moeLayers[l]);
    layer.quotaPages = plan.quotaPages[l];
    for (const Expert &expert : (*model)->artifact().moeLayers[l].experts)
      layer.sliceEnds.push_back({expert.slices[0].bytes, expert.bytes});
    routes.push_back({kExperts, kTopK, routed.chosen[l]});
  }
  const ReplayResult replayed =
      replayTrace(makeTrace(routes, steps).value(), cache, plan.miss).value();
  REQUIRE(replayed.passes.size() == counted.size());
  for (size_t pass = 0; pass < counted.size(); ++pass) {
    CAPTURE(pass);
    CHECK(replayed.changes[pass] == changesOf(counted[pass]));
    CHECK(replayed.passes[pass].hits == counted[pass].hits);
    CHECK(replayed.passes[pass].misses == counted[pass].misses);
    CHECK(replayed.passes[pass].lowMisses == counted[pass].lowMisses);
    CHECK(replayed.passes[pass].bytesRead == counted[pass].bytesRead);
  }
  CHECK(replayed.totalChanges.lowered > 0);
}

TEST_CASE("prompts are replayed as if the rule waited") {
  const Decoded decoded(planWith(kLossyRules.front(), CacheSharing::kLayerQuotas, Predictor::kOff));
  Replayed replayed(decoded, decoded.recording);
  for (RoutingPass &pass : replayed.trace.passes)
    pass.isPrompt = true;
  const TimedResult result = replayInTime(replayed.problem(), replayed.settings).value();
  CHECK(result.decode.misses == MissCounts());
  const PlanProblem problem = replayed.problem();
  replayed.settings.miss = {};
  CHECK(replayInTime(problem, replayed.settings).value().decode.cache.bytesRead ==
        result.decode.cache.bytesRead);
}

TEST_CASE("fewer slices take less time to read, to check and to compute") {
  const Decoded decoded(planWith(kLossyRules[1], CacheSharing::kLayerQuotas, Predictor::kOff));
  Replayed replayed(decoded, decoded.recording);
  const auto tokenNs = [&] {
    return replayInTime(replayed.problem(), replayed.settings).value().meanNs();
  };
  for (StepCosts::Layer &layer : replayed.costs.layers)
    layer.checks = {{5, 5}, 3, 0};
  const double sameCosts = tokenNs();
  for (StepCosts::Layer &layer : replayed.costs.layers)
    layer.firstSlices = {{10, 4}, {20, 8}};
  const double cheaper = tokenNs();
  CHECK(cheaper < sameCosts);
  replayed.settings.miss = {};
  CHECK(sameCosts < tokenNs());
}

TEST_CASE("a miss rule without scores, and scores that are not the trace's, are refused") {
  const Decoded decoded(planWith(kLossyRules.front(), CacheSharing::kLayerQuotas, Predictor::kOff));
  const Replayed replayed(decoded, decoded.recording);
  PlanProblem problem = replayed.problem();
  problem.scores = {};
  CHECK(check(problem).message() == "");
  CHECK(verify(problem, replayed.settings).message() ==
        "the miss rule " + missRuleText(kLossyRules.front()) +
            " decides by the routers' scores, which the trace does not have");
  std::vector<LayerScores> others = replayed.scores;
  problem.scores = std::span(others).first(1);
  CHECK(check(problem).message() == "slices or scores of 1 MoE layers, expected 3 or none");
  problem.scores = others;
  others[1].weights.pop_back();
  CHECK(check(problem).message().find("MoE layer 1 has scores of 18 tokens") == 0);
  others = replayed.scores;
  problem.scores = others;
  others[2].chosen[5] = kExperts;
  CHECK(check(problem).message() == "the scores of MoE layer 2 name expert 8, it has 8");
}

TEST_CASE("slices that do not fill their records are refused") {
  const Decoded decoded(planWith(kLossyRules.front(), CacheSharing::kLayerQuotas, Predictor::kOff));
  Replayed replayed(decoded, decoded.recording);
  replayed.sliceEnds[1][3].pop_back();
  CHECK(verify(replayed.problem(), replayed.settings).message() ==
        "MoE layer 1 has slices that do not fill its records");
}
