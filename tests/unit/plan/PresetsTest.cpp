#include "compiler/plan/Presets.h"

#include "compiler/plan/TimedReplay.h"
#include "tests/unit/plan/ScoredFixture.h"

#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

static const Preset kPresets[] = {Preset::kLoadOnDemand, Preset::kLru,    Preset::kEdgeMoe,
                                  Preset::kFate,         Preset::kHobbit, Preset::kSwapMoe,
                                  Preset::kPruning};

/// Eight layers of eight experts of a page, two of which a token takes; gates and paths are known.
static PlanFixture someProblem(uint64_t poolPages) {
  std::mt19937 random(1);
  PlanFixture fixture(randomTrace(random, 8, 8, 2, stepsOfWindows(1, 20, 4, 4)), 2, poolPages);
  fixture.predictions = goodPrefetches(random, fixture.trace, 6);
  for (uint32_t layer = 1; layer < 8; ++layer) {
    fixture.predictions.push_back(
        *findPredictions(fixture.problem(), {.predictor = Predictor::kGate}, layer, 1));
    fixture.predictions.back().predictor = Predictor::kPaths;
  }
  return fixture;
}

TEST_CASE("every preset's settings are verified and can be replayed, whatever the pool") {
  for (uint64_t pool = 1; pool <= 70; ++pool) {
    PlanFixture fixture = someProblem(pool);
    REQUIRE(check(fixture.problem()).message() == "");
    for (Preset preset : kPresets) {
      CAPTURE(pool);
      CAPTURE(presetName(preset));
      PlannedSettings planned = planPreset(preset, fixture.problem());
      CHECK(verify(fixture.problem(), planned.settings).message() == "");
      CHECK(replayInTime(fixture.problem(), planned.settings).isOk());
      CHECK(planned.decisions.size() >= 3);
    }
  }
}

TEST_CASE("load-on-demand hits nothing and prefetches nothing") {
  PlanFixture fixture = someProblem(40);
  PlannedSettings planned = planPreset(Preset::kLoadOnDemand, fixture.problem());
  CHECK(planned.settings.prefetches.empty());
  TimedResult result = replayInTime(fixture.problem(), planned.settings).value();
  CHECK(result.decode.cache.hits == 0);
}

TEST_CASE("fate reads as many experts as the time between two routers holds") {
  PlanFixture fixture = someProblem(40);
  // 2 * 50 + 100 + 7 ns between routers; a page is read in 4096 ns.
  CHECK(readsBetweenRouters(fixture.problem(), 1) == doctest::Approx(207.0 / 4096));
  CHECK(readsBetweenRouters(fixture.problem(), 0) == 0);
  CHECK(planPreset(Preset::kFate, fixture.problem()).settings.prefetches.empty());
  // Three times that, rounded down to one.
  for (StepCosts::Layer &layer : fixture.costs.layers)
    layer.before.firstNs = 6000;
  std::vector<PrefetchRule> prefetches =
      planPreset(Preset::kFate, fixture.problem()).settings.prefetches;
  REQUIRE(prefetches.size() == 8);
  CHECK(prefetches[0] == PrefetchRule());
  // A quarter of eight experts are candidates.
  CHECK(prefetches[1] == PrefetchRule{Predictor::kGate, 1, 2, 1, 0});
  for (StepCosts::Layer &layer : fixture.costs.layers)
    layer.before.firstNs = 60000;
  CHECK(planPreset(Preset::kFate, fixture.problem()).settings.prefetches[1].reads == 2);
}

TEST_CASE("a preset that does not prefetch has a reason: the time, or that nothing is known") {
  PlanFixture fixture = someProblem(40);
  for (StepCosts::Layer &layer : fixture.costs.layers)
    layer.before.firstNs = 2960;
  auto reasonOf = [&](Preset preset, const PlanProblem &problem) {
    for (const PlanReason &made : planPreset(preset, problem).decisions)
      if (made.decision == "prefetches")
        return made.value + ": " + made.reason;
    return std::string();
  };
  // (2960 + 2 * 50 + 7) ns of the 4096 that a page takes.
  CHECK(reasonOf(Preset::kFate, fixture.problem()) ==
        "none: from one router to the next there is time to read at most 0.75 experts");
  CHECK(reasonOf(Preset::kEdgeMoe, fixture.problem()) ==
        "paths, 1 read a layer: from one router to the next there is time to read at most 0.75 "
        "experts");
  PlanProblem unknown = fixture.problem();
  unknown.predictions = {};
  CHECK(reasonOf(Preset::kFate, unknown) == "none: nothing is known of prefetches by gate");
}

TEST_CASE("edgemoe reads one to three experts of each layer that has paths") {
  PlanFixture fixture = someProblem(40);
  auto prefetched = [&](uint32_t layer) {
    return planPreset(Preset::kEdgeMoe, fixture.problem()).settings.prefetches[layer];
  };
  CHECK(prefetched(0) == PrefetchRule());
  CHECK(prefetched(1) == PrefetchRule{Predictor::kPaths, 1, 6, 1, 0});
  CHECK(prefetched(2) == PrefetchRule{Predictor::kPaths, 1, 6, 1, 0});
  for (StepCosts::Layer &layer : fixture.costs.layers)
    layer.before.firstNs = 60000;
  CHECK(prefetched(2) == PrefetchRule{Predictor::kPaths, 1, 6, 3, 0});
}

TEST_CASE("edgemoe fills its pool layer by layer before anything was used") {
  PlanFixture fixture = someProblem(40);
  PlanSettings settings = planPreset(Preset::kEdgeMoe, fixture.problem()).settings;
  CHECK(settings.rules.sharing == CacheSharing::kOnePool);
  CHECK(settings.start[3] == std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(settings.startUses[3] == std::vector<uint32_t>(8, 0));
  uint64_t quotas = settings.allotment.totalPages() - settings.allotment.stagingPages;
  TimedResult result = replayInTime(fixture.problem(), settings).value();
  CHECK(result.startBytes == quotas * 4096);
}

TEST_CASE("hobbit has the weights that read the fewest bytes of all in quarters") {
  PlanFixture fixture = someProblem(24);
  const PlanSettings fitted = planPreset(Preset::kHobbit, fixture.problem()).settings;
  const EvictionWeights &weights = fitted.rules.weights;
  CHECK(weights.recency + weights.frequency + weights.fullFrequency + weights.nearness ==
        kFixedPointOne);
  CHECK(weights.frequency == weights.fullFrequency);
  auto bytesWith = [&](const EvictionWeights &tried) {
    PlanSettings settings = fitted;
    settings.rules.weights = tried;
    return replayTrace(fixture.trace, replayCacheOf(fixture.problem(), settings))->total.bytesRead;
  };
  const uint32_t quarter = kFixedPointOne / 4;
  uint64_t most = 0;
  for (const EvictionWeights &tried :
       {EvictionWeights{4 * quarter, 0, 0, 0}, EvictionWeights{0, 2 * quarter, 2 * quarter, 0},
        EvictionWeights{0, 0, 0, 4 * quarter}, EvictionWeights{2 * quarter, 0, 0, 2 * quarter}}) {
    CHECK(bytesWith(weights) <= bytesWith(tried));
    most = std::max(most, bytesWith(tried));
  }
  CHECK(bytesWith(weights) < most); // The weights matter.
}

TEST_CASE("with the routers' scores hobbit's weights and pools are those of its demand") {
  const ScoredFixture fixture(3 * 8 + 8);
  const PlannedSettings fitted = planPreset(Preset::kHobbit, fixture.problem());
  CHECK(fitted.settings.miss == MissRule{}); // A rule is the caller's.
  PlanSettings lossy = fitted.settings;
  setMiss(missRuleOf(Preset::kHobbit), lossy);
  auto bytesOf = [&](const PlanSettings &settings) {
    return replayTrace(fixture.trace, replayCacheOf(fixture.problem(), settings), settings.miss,
                       fixture.scores)
        ->total.bytesRead;
  };
  const uint64_t bytes = bytesOf(lossy);
  uint64_t most = bytes;
  for (uint32_t eighths : {1, 2, 4, 6}) {
    PlanSettings other = lossy;
    other.rules.upperPart = kFixedPointOne / 8 * eighths;
    CHECK(bytes <= bytesOf(other));
    most = std::max(most, bytesOf(other));
  }
  CHECK(bytes < most); // The pools matter.
  const auto pools = std::ranges::find(fitted.decisions, "pools", &PlanReason::decision);
  REQUIRE(pools != fitted.decisions.end());
  CHECK(pools->value.find(" of the pages for upper slices") != std::string::npos);
}

TEST_CASE("hobbit predicts as many layers ahead as its text decodes fastest with") {
  PlanFixture fixture = someProblem(40);
  for (StepCosts::Layer &layer : fixture.costs.layers)
    layer.before.firstNs = 6000; // A read takes 4096 ns.
  const auto ahead = [&fixture] {
    const PlannedSettings planned = planPreset(Preset::kHobbit, fixture.problem());
    CHECK(planned.decisions.back().decision == "prediction depth");
    const std::vector<PrefetchRule> &prefetches = planned.settings.prefetches;
    REQUIRE(prefetches.size() == 8);
    CHECK(prefetches[0] == PrefetchRule());
    for (uint32_t layer = 1; layer < 8; ++layer) {
      CHECK(prefetches[layer].predictor == Predictor::kAdaptiveGate);
      CHECK(prefetches[layer].candidates == 2); // Those of a token.
      CHECK(prefetches[layer].reads == 2);
      CHECK(prefetches[layer].ahead == std::min<uint32_t>(layer, prefetches[7].ahead));
    }
    return uint32_t(prefetches[7].ahead);
  };
  CHECK(ahead() == 3);
  // Predictions from further away name nothing that is used, and reading it takes time.
  for (LayerPredictions &made : fixture.predictions)
    if (made.ahead > 1)
      for (PrefetchCandidate &candidate : made.candidates)
        candidate.expert = 7 - candidate.expert;
  CHECK(ahead() == 1);
}

TEST_CASE("hobbit prefetches nothing where reading on demand is as fast, unless a depth is asked "
          "for") {
  PlanFixture fixture = someProblem(40);
  for (LayerPredictions &made : fixture.predictions)
    std::ranges::fill(made.candidates, PrefetchCandidate{7, 1}); // Hardly ever right.
  const PlannedSettings planned = planPreset(Preset::kHobbit, fixture.problem());
  CHECK(planned.settings.prefetches.empty());
  CHECK(planned.decisions.back().value == "none");
  for (uint32_t depth = 1; depth <= kMostAhead; ++depth) {
    const PlannedSettings asked = planPreset(Preset::kHobbit, fixture.problem(), depth);
    REQUIRE(asked.settings.prefetches.size() == 8);
    CHECK(asked.settings.prefetches[7].ahead == depth);
    CHECK(asked.decisions.back().reason.find("asked for") != std::string::npos);
  }
}

TEST_CASE("where nothing is known of prefetches a preset prefetches nothing and keeps more") {
  PlanFixture fixture = someProblem(40);
  for (StepCosts::Layer &layer : fixture.costs.layers)
    layer.before.firstNs = 6000;
  for (Preset preset : {Preset::kEdgeMoe, Preset::kFate, Preset::kHobbit}) {
    CAPTURE(presetName(preset));
    PlanSettings with = planPreset(preset, fixture.problem()).settings;
    PlanProblem unknown = fixture.problem();
    unknown.predictions = {};
    PlanSettings without = planPreset(preset, unknown).settings;
    CHECK(!with.prefetches.empty());
    CHECK(without.prefetches.empty());
    CHECK(without.allotment.stagingPages < with.allotment.stagingPages);
    CHECK(without.allotment.totalPages() >= with.allotment.totalPages());
  }
}
