// Layer by layer: a batch of many tokens that are computed as decoding them one by one would, with
// the plan's cache as each token leaves it to the next. The same bits, for every miss rule.
#include "tests/unit/engine/EngineFixture.h"
#include "tests/unit/policy/AllCacheRules.h"
#include "tests/unit/policy/LossyRules.h"

#include <array>
#include <doctest/doctest.h>

using namespace moert;
using namespace moert::test;

namespace {

/// Those of all tests, and one that lowers to more than a slice.
std::vector<MissRule> rulesOfBatches() {
  std::vector<MissRule> rules = kLossyRules;
  rules.insert(rules.begin() + 2, {.action = MissAction::kLower,
                                   .lowSlices = 2,
                                   .waitUpTo = part(0.2),
                                   .skipBeyond = part(0.9)});
  return rules;
}

/// Experts of two and three slices; two to three of a layer stay, uneven quotas, a pin and a start.
SyntheticOptions slicedModel(const MissRule &miss, const CacheRules &rules) {
  Plan plan = smallPlan();
  plan.quotaPages = {9, 13, 6};
  plan.rules = rules;
  plan.miss = miss;
  plan.pinned = {{}, {5}, {}};
  plan.start = {{{1, 2, 3}, {4, 3, 2}}, {{7}, {1}}, {{}, {}}};
  plan.startTokens = 5;
  SyntheticOptions options = modelWith({plan});
  options.slices = {{WeightKind::kInt2, WeightKind::kInt2},
                    {WeightKind::kInt2, WeightKind::kInt2, WeightKind::kInt4}};
  return options;
}

/// What two windows compute and count: the second one begins with the cache of the first.
struct Windows : StepObserver {
  std::vector<float> logits;
  std::vector<std::vector<float>> weights = std::vector<std::vector<float>>(kLayers);
  std::vector<std::vector<int32_t>> experts = std::vector<std::vector<int32_t>>(kLayers);
  std::vector<LayerProfile> sums = std::vector<LayerProfile>(kLayers);

  Status onLogits(Session &, uint32_t, std::span<const float> values) override {
    logits.insert(logits.end(), values.begin(), values.end());
    return {};
  }
  void onRoute(Session &, uint32_t layer, uint32_t, std::span<const int32_t> chosen,
               std::span<const float> factors) override {
    experts[layer].insert(experts[layer].end(), chosen.begin(), chosen.end());
    weights[layer].insert(weights[layer].end(), factors.begin(), factors.end());
  }
  void count(std::span<const LayerProfile> layers) {
    for (uint32_t l = 0; l < kLayers; ++l) {
      sums[l].hits += layers[l].hits;
      sums[l].misses += layers[l].misses;
      sums[l].lowHits += layers[l].lowHits;
      sums[l].lowMisses += layers[l].lowMisses;
      sums[l].lowered += layers[l].lowered;
      sums[l].skipped += layers[l].skipped;
      sums[l].substituted += layers[l].substituted;
    }
  }
  bool isSame(const Windows &other) const {
    bool same = sameBytes(logits, other.logits) && experts == other.experts;
    for (uint32_t l = 0; l < kLayers; ++l)
      same = same && sameBytes(weights[l], other.weights[l]) &&
             sums[l].hits == other.sums[l].hits && sums[l].misses == other.sums[l].misses &&
             sums[l].lowHits == other.sums[l].lowHits &&
             sums[l].lowMisses == other.sums[l].lowMisses &&
             sums[l].lowered == other.sums[l].lowered && sums[l].skipped == other.sums[l].skipped &&
             sums[l].substituted == other.sums[l].substituted;
    return same;
  }
};

Windows decode(Loaded &loaded, size_t batchTokens, int count = 2) {
  Windows windows;
  for (int window = 0; window < count; ++window) {
    for (size_t begin = 0; begin < kPrompt.size(); begin += batchTokens) {
      const auto tokens =
          std::span(kPrompt).subspan(begin, std::min(batchTokens, kPrompt.size() - begin));
      const SessionTokens batch = {loaded.session.get(), tokens, LogitsWanted::kAll};
      const Status done = loaded.engine->step({&batch, 1}, windows);
      REQUIRE_MESSAGE(done.isOk(), done.message());
      windows.count(loaded.engine->lastStep());
    }
    loaded.session->reset();
  }
  return windows;
}

struct BatchFixture {
  explicit BatchFixture(const SyntheticOptions &synthetic) : artifact(synthetic) {
    const auto model = Model::open(artifact.path);
    REQUIRE_MESSAGE(model.isOk(), model.status().message());
    options = optionsOf(**model, synthetic.plans.front());
  }
  Windows decodeWith(bool inBatches, uint32_t chunk) const {
    EngineOptions changed = options;
    changed.decodesInBatches = inBatches;
    changed.prefillChunk = chunk;
    Loaded loaded = load(artifact.path, changed);
    CHECK(loaded.engine->decodesInBatches() == inBatches);
    return decode(loaded, inBatches ? loaded.engine->prefillChunk() : 1);
  }

  TemporaryArtifact artifact;
  EngineOptions options;
};

} // namespace

TEST_CASE("a batch computes to the bit what decoding its tokens one by one computes") {
  // What a prompt keeps, and the tokens of a batch, take turns: all pairs take long.
  uint32_t turn = 0;
  for (const MissRule &rule : rulesOfBatches())
    for (CacheRules rules : allRules()) {
      if (rules.sharing != CacheSharing::kLayerQuotas ||
          rules.eviction == EvictionPolicy::kImportance)
        continue;
      rules.survival = static_cast<PromptSurvival>(turn % 3);
      rules.baseSlices = turn % 4 < 2 ? rule.baseSlices() : uint8_t(0);
      const uint32_t chunk = std::array<uint32_t, 4>{16, 5, 1, 9}[turn++ % 4];
      CAPTURE(missRuleText(rule));
      CAPTURE(int(rules.eviction));
      CAPTURE(int(rules.survival));
      CAPTURE(chunk);
      const BatchFixture model(slicedModel(rule, rules));
      const Windows expected = model.decodeWith(false, 16);
      LayerProfile all;
      for (const LayerProfile &sum : expected.sums)
        all.lowered += sum.lowered + sum.skipped + sum.substituted;
      CHECK(all.lowered > 0);
      CHECK(model.decodeWith(true, chunk).isSame(expected));
    }
}

TEST_CASE("with its cache begun again, an engine computes a window as the first one") {
  for (bool inBatches : {false, true}) {
    bool dependsOnCache = false;
    for (const MissRule &rule : rulesOfBatches()) {
      CAPTURE(missRuleText(rule));
      const BatchFixture model(slicedModel(rule, {}));
      EngineOptions options = model.options;
      options.decodesInBatches = inBatches;
      Loaded loaded = load(model.artifact.path, options);
      const size_t batch = inBatches ? loaded.engine->prefillChunk() : 1;
      const Windows first = decode(loaded, batch, 1);
      dependsOnCache = dependsOnCache || !decode(loaded, batch, 1).isSame(first);
      REQUIRE(loaded.engine->restartCache().isOk());
      CHECK(decode(loaded, batch, 1).isSame(first));
    }
    CHECK(dependsOnCache);
  }
}

TEST_CASE("with one pool, prefetches, eviction by importance, separate copies or nothing to lose, "
          "batches are not decoded") {
  const auto applies = [](auto change) {
    SyntheticOptions synthetic = slicedModel(kLossyRules.front(), {});
    change(synthetic, synthetic.plans.front());
    const TemporaryArtifact artifact(synthetic);
    EngineOptions options = optionsOf(*Model::open(artifact.path).value(), synthetic.plans.front());
    options.decodesInBatches = true;
    return load(artifact.path, options).engine->decodesInBatches();
  };
  CHECK(applies([](SyntheticOptions &, Plan &) {}));
  CHECK_FALSE(applies([](SyntheticOptions &, Plan &plan) { plan.miss = {}; }));
  CHECK_FALSE(
      applies([](SyntheticOptions &, Plan &plan) { plan.rules.sharing = CacheSharing::kOnePool; }));
  CHECK_FALSE(applies(
      [](SyntheticOptions &, Plan &plan) { plan.rules.eviction = EvictionPolicy::kImportance; }));
  CHECK_FALSE(applies([](SyntheticOptions &, Plan &plan) {
    plan.prefetches = {{}, {Predictor::kGate, 1, kExperts, 2, 0}, {}};
  }));
  const auto hasOneSlice = [](SyntheticOptions &model) { model.slices = {{WeightKind::kInt8}}; };
  CHECK(applies([&](SyntheticOptions &model, Plan &) { hasOneSlice(model); }));
  CHECK_FALSE(applies([&](SyntheticOptions &model, Plan &) {
    hasOneSlice(model);
    model.lowCopy = {WeightKind::kInt2};
  }));
}

TEST_CASE("an engine that decodes in batches refuses prompts and other budgets") {
  const BatchFixture model(slicedModel(kLossyRules.front(), {}));
  EngineOptions options = model.options;
  options.decodesInBatches = true;
  Loaded loaded = load(model.artifact.path, options);
  Silent observer;
  const Status prompt =
      loaded.engine->prefill({loaded.session.get(), kPrompt, LogitsWanted::kLast}, observer);
  CHECK(prompt.code() == StatusCode::kInvalidInput);
  CHECK(prompt.message().find("expected steps of no prompt") != std::string::npos);
  CHECK(loaded.engine->setBudget(*options.memory).message().find("decodes in batches") !=
        std::string::npos);
}

TEST_CASE("batches that are decoded are in the memory account") {
  const BatchFixture model(slicedModel(kLossyRules.front(), {}));
  const auto opened = Model::open(model.artifact.path);
  EngineOptions options = model.options;
  const uint64_t before = accountMemory(**opened, options).value().totalBytes();
  options.decodesInBatches = true;
  CHECK(accountMemory(**opened, options).value().totalBytes() > before);
  options.isExact = true;
  const uint64_t exact = accountMemory(**opened, options).value().totalBytes();
  options.decodesInBatches = false;
  CHECK(accountMemory(**opened, options).value().totalBytes() == exact);
}
