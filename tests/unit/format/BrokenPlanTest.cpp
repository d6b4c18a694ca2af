// The rules about plans broken one at a time, as in BrokenArtifactTest.cpp.
#include "runtime/format/Validate.h"

#include "tests/unit/format/BrokenCases.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

using namespace moert;

namespace {

struct BrokenPlan {
  const char *what;
  std::function<void(Plan &)> breakIt;
  const char *message; // Part of the message.
};

} // namespace

// Changes the first plan, or the plan of the given index.
static void checkPlansRefused(const std::vector<BrokenPlan> &cases, size_t plan = 0) {
  std::vector<Broken> broken;
  for (const BrokenPlan &one : cases)
    broken.push_back(
        {one.what, [&one, plan](Artifact &a) { one.breakIt(a.plans[plan]); }, one.message});
  checkAllRefused(broken, tinyPlannedArtifact());
}

TEST_CASE("unknown rules and texts that harm a terminal are refused") {
  checkPlansRefused({
      {"an unknown eviction", [](Plan &p) { p.rules.eviction = EvictionPolicy(8); },
       "plan 0: unknown eviction 8, this reads 0 to 7"},
      {"an unknown sharing", [](Plan &p) { p.rules.sharing = CacheSharing(3); },
       "plan 0: unknown sharing 3, this reads 0 to 2"},
      {"two pools of which one is nothing", [](Plan &p) { p.rules.sharing = CacheSharing(2); },
       "cache sharing 2 with a part of 0 for upper slices, expected one with 2 only"},
      {"an unknown survival", [](Plan &p) { p.rules.survival = PromptSurvival(3); },
       "plan 0: unknown survival 3, this reads 0 to 2"},
      {"an unknown miss rule", [](Plan &p) { p.miss.action = MissAction(8); },
       "plan 0: miss: unknown action 8, this reads 0 to 7"},
      {"a preset with a line end", [](Plan &p) { p.preset.push_back('\n'); },
       "plan 0: preset is not plain UTF-8"},
  });
}

TEST_CASE("miss rules with impossible numbers are refused") {
  checkPlansRefused({
      {"experts of no slices",
       [](Plan &p) {
         p.miss = {MissAction::kLower, 0};
       },
       "plan 0: miss: low_slices is 0, expected 1 to 255"},
      {"waiting beyond the score from which experts are left out",
       [](Plan &p) {
         p.miss = {MissAction::kLower, 1, 8, 7};
       },
       "plan 0: miss: wait_up_to is 8, expected 0 to 7"},
      {"a score beyond one",
       [](Plan &p) {
         p.miss = {MissAction::kLower, 1, 0, kFixedPointOne + 1};
       },
       "miss: skip_beyond is 16777217, expected 0 to 16777216"},
      {"a distance beyond one",
       [](Plan &p) {
         p.miss = {MissAction::kSubstitute, 1, 0, kFixedPointOne, kFixedPointOne + 1};
       },
       "miss: substitute_within is 16777217, expected 0 to 16777216"},
  });
}

TEST_CASE("a pool for upper slices is a part of one pool, and nothing is pinned beside it") {
  checkPlansRefused({
      {"more than all of it",
       [](Plan &p) {
         p.rules.sharing = CacheSharing::kOnePool;
         p.rules.upperPart = kFixedPointOne + 1;
       },
       "plan 0: upper_part is 16777217, expected 0 to 16777216"},
      {"pinned experts",
       [](Plan &p) {
         p.rules.sharing = CacheSharing::kOnePool;
         p.rules.upperPart = 1;
       },
       "plan 0: a pool for upper slices beside pinned experts, expected one of the two"},
  });
}

// A file cannot say this: it has one number for both.
TEST_CASE("slices are held alone by a rule that lowers experts to them only") {
  Artifact artifact = tinyPlannedArtifact();
  Plan &plan = artifact.plans[0];
  plan.miss = {MissAction::kLower, 2, 0, kFixedPointOne};
  plan.rules.baseSlices = 2;
  CHECK(validatePlans(artifact).message() == "");
  plan.rules.baseSlices = 1;
  CHECK(validatePlans(artifact).message() ==
        "plan 0: miss: 1 slices that are held alone, expected 0 or 2 for lower:0:1:2");
  plan.miss = {MissAction::kSkip};
  CHECK(validatePlans(artifact).message() ==
        "plan 0: miss: 1 slices that are held alone, expected 0 for skip:0");
}

TEST_CASE("weights of eviction belong to the weighted policy and are at most one in all") {
  checkPlansRefused({
      {"weights of another policy", [](Plan &p) { p.rules.weights.recency = 1; },
       "plan 0: weights of eviction, expected none without the weighted policy"},
      {"no weights", [](Plan &p) { p.rules.eviction = EvictionPolicy::kWeighted; },
       "the sum of the weights of eviction is 0, expected 1 to 16777216"},
      {"a weight above one",
       [](Plan &p) {
         p.rules.eviction = EvictionPolicy::kWeighted;
         p.rules.weights = {UINT32_MAX, 2, 0, 0};
       },
       "eviction_weights: recency is 4294967295, expected 0 to 16777216"},
  });
}

/// Layers of 4 and 5 experts are exchanged by importance.
static void exchangeExperts(Plan &plan) {
  plan.rules = {.eviction = EvictionPolicy::kImportance, .exchange = {4, 2, 5}};
  plan.prefetches.clear();
}

static Plan exchangingPlan(void (*change)(Plan &)) {
  Plan plan = tinyPlannedArtifact().plans[0];
  exchangeExperts(plan);
  change(plan);
  return plan;
}

TEST_CASE("exchanges belong to eviction by importance in layers, and have numbers in range") {
  const std::pair<void (*)(Plan &), const char *> kCases[] = {
      {[](Plan &p) { p.rules.eviction = EvictionPolicy::kLru; },
       "a rule of exchanges or norms of experts, expected none without eviction by importance"},
      {[](Plan &p) {
         p.rules = {.eviction = EvictionPolicy::kLfu};
         p.expertNorms = {{1}, {1}};
       },
       "a rule of exchanges or norms of experts"},
      {[](Plan &p) { p.rules.sharing = CacheSharing::kOnePool; },
       "eviction by importance in one pool, expected quotas per layer"},
      {[](Plan &p) {
         p.prefetches = {{}, {Predictor::kGate, 1, 3, 2, 0}};
       },
       "exchanges beside prefetches, expected one of the two"},
      {[](Plan &p) { p.rules.exchange.fadeShift = 0; },
       "exchange: fade_shift is 0, expected 1 to 11"},
      {[](Plan &p) { p.rules.exchange.fadeShift = 12; },
       "exchange: fade_shift is 12, expected 1 to 11"},
      {[](Plan &p) { p.rules.exchange.afterTokens = 0; }, "after_tokens is 0, expected 1 to 4"},
      {[](Plan &p) { p.rules.exchange.afterTokens = 5; }, "after_tokens is 5, expected 1 to 4"},
      {[](Plan &p) {
         p.expertNorms = {{1, 2}};
       },
       "lists of norms of 1 layers, expected none or 2"},
      {[](Plan &p) {
         p.expertNorms = {{1, 2}, {1}};
       },
       "norms of 2 experts of MoE layer 0, expected 4"},
      {[](Plan &p) {
         p.expertNorms = {{1, 2, kFixedPointOne + 1, 4}, {1}};
       },
       "expert_norms is 16777217, expected 0 to 16777216"},
  };
  for (const auto &broken : kCases) {
    CAPTURE(broken.second);
    Artifact artifact = tinyPlannedArtifact();
    artifact.plans[0] = exchangingPlan(broken.first);
    const Status refused = readBack(artifact);
    CHECK_MESSAGE(refused.message().find(broken.second) != std::string::npos, refused.message());
  }
  Artifact artifact = tinyPlannedArtifact();
  artifact.plans[0] = exchangingPlan([](Plan &) {});
  CHECK(readBack(artifact).message() == "");
}

TEST_CASE("losses with impossible numbers, or without a miss rule, are refused") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  checkPlansRefused({
      {"a loss of a plan that waits", [](Plan &p) { p.miss = {}; },
       "plan 0: loss: it was measured, but the plan has no miss rule"},
      {"a loss that is no number", [nan](Plan &p) { p.loss->loss = nan; },
       "plan 0: loss: loss is nan, expected a finite number"},
      {"a bound that is no number", [nan](Plan &p) { p.loss->upperBound = nan; },
       "loss: upper_bound is nan"},
      {"more than all tokens", [](Plan &p) { p.loss->topDisagreement = 1.5; },
       "loss: top_disagreement is 1.5, expected 0 to 1"},
      {"no confidence", [](Plan &p) { p.loss->confidence = 0; },
       "loss: confidence is 0, expected 0.9 to 0.9999"},
      {"a quantile of all units",
       [](Plan &p) {
         p.loss->quantile = {1, 0.02, {}};
       },
       "the quantile's fraction is 1"},
      {"windows of a token", [](Plan &p) { p.loss->windowTokens = 1; },
       "loss: window_tokens is 1, expected 2 to"},
      {"a name that harms a terminal", [](Plan &p) { p.loss->texts[0].name.push_back('\x1b'); },
       "loss: texts 0: name is not plain UTF-8"},
  });
}

TEST_CASE("pins that do not exist, appear twice or are too large are refused") {
  checkPlansRefused({
      {"pins of one layer", [](Plan &p) { p.pinned.pop_back(); },
       "plan 0: pins of 1 layers, expected none or 2"},
      {"an expert that is not there", [](Plan &p) { p.pinned[1] = {4}; },
       "plan 0: pins of MoE layer 1: expert 4, there are 4"},
      {"an expert twice",
       [](Plan &p) {
         p.pinned[0] = {2, 1, 2};
       },
       "plan 0: pins of MoE layer 0: expert 2 is listed twice"},
      {"a layer with too little room beside its pins",
       [](Plan &p) {
         p.stagingPages = 1;
         p.pinned[0] = {0, 1, 2, 3};
       },
       "expert 3 of MoE layer 0 is pinned: 2 pages, 6 before it, expected at most 7, which leaves "
       "room for the largest record"},
  });
}

TEST_CASE("pins of a shared pool are checked against the sum of its quotas") {
  // The pool has 2 pages, and the staging pages are those of the largest record.
  checkPlansRefused(
      {{"two layers' pins",
        [](Plan &p) {
          p.pinned = {{0}, {3}};
        },
        "expert 3 of MoE layer 1 is pinned: 3 pages, 2 before it, expected at most 2"}},
      1);
}

TEST_CASE("the limit of pins depends on pages alone, not on the cache's policy") {
  // Layer 0 has records of 2 pages. With 3 staging pages all of a quota of 6 may be pinned.
  for (int eviction = 0; eviction <= int(EvictionPolicy::kReuseDistance); ++eviction)
    for (int survival = 0; survival <= int(PromptSurvival::kPins); ++survival) {
      CAPTURE(eviction);
      CAPTURE(survival);
      Artifact artifact = tinyPlannedArtifact();
      Plan &plan = artifact.plans[0];
      plan.rules = {EvictionPolicy(eviction), CacheSharing::kLayerQuotas, PromptSurvival(survival)};
      plan.quotaPages[0] = 6;
      plan.stagingPages = 3; // Pages of the largest record of layer 1.
      plan.pinned = {{0, 1, 2}, {}};
      CHECK(readBack(artifact).message() == "");
      artifact.plans[0].pinned = {{0, 1, 2, 3}, {}};
      CHECK(readBack(artifact).message().find("2 pages, 6 before it, expected at most 6") !=
            std::string::npos);
    }
}

TEST_CASE("start experts that do not exist, appear twice or have wrong counts are refused") {
  checkPlansRefused({
      {"no tokens", [](Plan &p) { p.startTokens = 0; }, "plan 0: start_tokens is 0, expected 1 to"},
      {"starts of one layer", [](Plan &p) { p.start.pop_back(); },
       "plan 0: starts of 1 layers, expected none or 2"},
      {"an expert that is not there", [](Plan &p) { p.start[1].experts = {9}; },
       "plan 0: start of MoE layer 1: expert 9, there are 4"},
      {"an expert twice",
       [](Plan &p) {
         p.start[0].experts = {1, 1};
       },
       "plan 0: start of MoE layer 0: expert 1 is listed twice"},
      {"a wrong number of uses", [](Plan &p) { p.start[0].uses.pop_back(); },
       "plan 0: start of MoE layer 0: uses of 1 experts, expected 2"},
      {"more uses than tokens", [](Plan &p) { p.start[1].uses = {9}; },
       "plan 0: start of MoE layer 1: uses is 9, expected 0 to 8"},
  });
}

TEST_CASE("prefetch rules that the program cannot execute are refused") {
  checkPlansRefused({
      {"rules of one layer", [](Plan &p) { p.prefetches.pop_back(); },
       "plan 0: prefetch rules of 1 layers, expected none or 2"},
      {"an unknown predictor", [](Plan &p) { p.prefetches[1].predictor = Predictor(4); },
       "prefetches 1: unknown predictor 4, this reads 0 to 3"},
      {"from the layer itself", [](Plan &p) { p.prefetches[0].ahead = 0; },
       "plan 0: prefetches 0: ahead is 0, expected 1 to 3"},
      {"from too far away", [](Plan &p) { p.prefetches[1].ahead = 4; },
       "ahead is 4, expected 1 to 3"},
      {"no candidates", [](Plan &p) { p.prefetches[1].candidates = 0; },
       "candidates is 0, expected 1 to 65535"},
      {"more candidates than experts", [](Plan &p) { p.prefetches[1].candidates = 5; },
       "candidates is 5, expected 1 to 4"},
      {"no reads", [](Plan &p) { p.prefetches[1].reads = 0; }, "reads is 0, expected 1 to 3"},
      {"more reads than candidates", [](Plan &p) { p.prefetches[1].reads = 4; },
       "reads is 4, expected 1 to 3"},
      {"more than certain", [](Plan &p) { p.prefetches[1].minProbability = kFixedPointOne + 1; },
       "min_probability is 16777217, expected 0 to 16777216"},
      {"the first layer", [](Plan &p) { p.prefetches[0] = p.prefetches[1]; },
       "prefetches 0: the program 'decode' has no predict instruction 1 ahead of "
       "it"},
      {"where no instruction is", [](Plan &p) { p.prefetches[1].ahead = 2; },
       "the program 'decode' has no predict instruction 2 ahead of it"},
      {"where an instruction for one of several distances is missing",
       [](Plan &p) {
         p.prefetches[1].predictor = Predictor::kAdaptiveGate;
         p.prefetches[1].ahead = 2;
       },
       "the program 'decode' has no predict instruction 2 ahead of it"},
      {"an activation-path table from further ahead",
       [](Plan &p) {
         p.prefetches[1].predictor = Predictor::kPaths;
         p.prefetches[1].ahead = 2;
       },
       "the activation-path table predicts 2 ahead, expected 1"},
  });
  checkAllRefused({{"an activation-path table without its section",
                    [](Artifact &a) {
                      a.plans[0].prefetches = {{}, {Predictor::kPaths, 1, 3, 2, 0}};
                    },
                    "plan 0: prefetches 1: an activation-path table is used, but the "
                    "file has no section of them"}});
}

TEST_CASE("forecasts and reasons that cannot be printed are refused") {
  checkPlansRefused({
      {"a device with a control character", [](Plan &p) { p.forecast->device.push_back('\x1b'); },
       "plan 0: forecast: device is not plain UTF-8"},
      {"more tokens than the trace has", [](Plan &p) { p.forecast->traceTokens = 4095; },
       "it covers 4096 tokens, expected at most the 4095"},
      {"a time that is not a number", [](Plan &p) { p.forecast->tokenNs = NAN; },
       "forecast: token_ns is nan"},
      {"an infinite time", [](Plan &p) { p.forecast->medianNs = INFINITY; },
       "forecast: median_ns is inf"},
      {"a negative time", [](Plan &p) { p.forecast->slowNs = -1; },
       "forecast: slow_ns is -1, expected at least 0"},
      {"negative bytes", [](Plan &p) { p.forecast->bytesPerToken = -1; },
       "forecast: bytes_read_per_token is -1"},
      {"infinite bytes", [](Plan &p) { p.forecast->leastBytesPerToken = INFINITY; },
       "forecast: least_bytes_per_token is inf"},
      {"a bound that is not a number", [](Plan &p) { p.forecast->boundNs = NAN; },
       "forecast: bound_ns is nan"},
      {"a hit rate above 1", [](Plan &p) { p.forecast->hitRate = 1.5; },
       "forecast: hit_rate is 1.5, expected 0 to 1"},
      {"a negative rate", [](Plan &p) { p.forecast->readyRate = -0.5; },
       "forecast: ready_rate is -0.5, expected 0 to 1"},
      {"a recall above 1", [](Plan &p) { p.forecast->prefetchRecall = 2; }, "prefetch_recall is 2"},
      {"a precision that is not a number", [](Plan &p) { p.forecast->prefetchPrecision = NAN; },
       "prefetch_precision is nan"},
      {"an unknown origin", [](Plan &p) { p.forecast->origin = Origin(4); },
       "plan 0: forecast: unknown origin 4, this reads 0 to 3"},
      {"a decision with a line end", [](Plan &p) { p.reasons[0].decision.push_back('\n'); },
       "plan 0: reasons 0: decision is not plain UTF-8"},
      {"a value that is not UTF-8", [](Plan &p) { p.reasons[1].value.push_back('\xff'); },
       "plan 0: reasons 1: value is not plain UTF-8"},
      {"a reason with a bell character", [](Plan &p) { p.reasons[1].reason.push_back('\a'); },
       "plan 0: reasons 1: reason is not plain UTF-8"},
      {"a reason of an unknown origin", [](Plan &p) { p.reasons[1].origin = Origin(9); },
       "plan 0: reasons 1: unknown origin 9, this reads 0 to 3"},
  });
}

TEST_CASE("a layer whose prefetch rule is off needs no predict instruction") {
  Artifact artifact = tinyPlannedArtifact();
  std::erase_if(artifact.programs[0].instructions,
                [](const Instruction &i) { return std::holds_alternative<PredictInstruction>(i); });
  artifact.programs[0].layers.resize(artifact.programs[0].instructions.size());
  firstOf<RouteInstruction>(artifact.programs[0]).beginsReads = true;
  CHECK(!readBack(artifact).isOk());
  for (Plan &plan : artifact.plans)
    plan.prefetches[1] = {};
  Status status = readBack(artifact);
  CHECK_MESSAGE(status.isOk(), status.message());
}
