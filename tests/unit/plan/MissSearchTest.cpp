#include "compiler/plan/MissSearch.h"

#include "compiler/plan/PlanSearch.h"
#include "compiler/plan/PlanTrials.h"
#include "compiler/plan/TimedReplay.h"
#include "tests/unit/plan/ScoredFixture.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>

using namespace moec;
using namespace moert;

TEST_CASE("ladders go from safe to lossy, and each rung is faster than the one before") {
  const ScoredFixture fixture(3 * 8 + 8);
  const PlanSettings waiting = quotasOf({8, 8, 8}, 8);
  const MissLadders found = searchMisses(fixture.problem(), waiting, 2).value();
  REQUIRE(found.ladders.size() >= 2);
  CHECK(found.ladders[0].front().settings.miss.action == MissAction::kLower);
  CHECK(found.ladders[1].front().settings.miss.action == MissAction::kSkip);
  for (const std::vector<MissRung> &ladder : found.ladders) {
    double before = found.waitingNs, displaced = 0;
    for (const MissRung &rung : ladder) {
      const double gain = &rung == &ladder.front() ? kMinRungGain : kMinRungStep;
      CHECK(rung.tokenNs <= before * (1 - gain));
      CHECK(rung.displacedWeight >= displaced);
      CHECK(rung.displacedWeight <= 1);
      CHECK(verify(fixture.problem(), rung.settings).isOk());
      before = rung.tokenNs;
      displaced = rung.displacedWeight;
    }
  }
}

TEST_CASE("the same search gives the same ladders, whatever the number of threads") {
  const ScoredFixture fixture(3 * 8 + 8);
  const PlanSettings waiting = quotasOf({8, 8, 8}, 8);
  const MissLadders one = searchMisses(fixture.problem(), waiting, 1).value();
  const MissLadders three = searchMisses(fixture.problem(), waiting, 3).value();
  REQUIRE(one.ladders.size() == three.ladders.size());
  for (size_t i = 0; i < one.ladders.size(); ++i) {
    REQUIRE(one.ladders[i].size() == three.ladders[i].size());
    for (size_t j = 0; j < one.ladders[i].size(); ++j) {
      CHECK(one.ladders[i][j].settings == three.ladders[i][j].settings);
      CHECK(one.ladders[i][j].tokenNs == three.ladders[i][j].tokenNs);
    }
  }
}

TEST_CASE("a rung divides the cache by what layers demand under its rule") {
  // The first layer's router gives its best expert nearly all of the weight, the others' routers
  // give all the same: a rule that skips the unimportant leaves the first layer one expert.
  ScoredFixture fixture(3 * 12 + 8);
  for (size_t i = 0; i < fixture.scores[0].weights.size(); ++i)
    fixture.scores[0].weights[i] = i % 4 == 0 ? 0.97F : 0.01F;
  for (size_t layer : {1, 2})
    fixture.scores[layer].weights.assign(fixture.scores[layer].weights.size(), 0.25F);
  const PlanSettings waiting = quotasOf({12, 12, 12}, 8);
  const MissLadders found = searchMisses(fixture.problem(), waiting, 1).value();
  REQUIRE(!found.ladders.empty());
  for (const std::vector<MissRung> &ladder : found.ladders) {
    const MissRung &rung = ladder.front();
    CAPTURE(missRuleText(rung.settings.miss));
    if (rung.settings.miss.action != MissAction::kSkip)
      continue;
    CHECK(rung.settings.allotment.quotaPages[0] < 12);
    CHECK(rung.settings.allotment.totalPages() <= fixture.poolPages);
    PlanSettings undivided = rung.settings;
    undivided.allotment = waiting.allotment;
    CHECK(replayInTime(fixture.problem(), rung.settings)->meanNs() <
          replayInTime(fixture.problem(), undivided)->meanNs());
    const auto quotas = std::ranges::find(rung.decisions, "quotas", &PlanReason::decision);
    REQUIRE(quotas != rung.decisions.end());
    CHECK(quotas->reason.find("under skip:") != std::string::npos);
  }
}

TEST_CASE("substitutes end with mask, which exchanges experts where their norms are known") {
  ScoredFixture fixture(3 * 24 + 8);
  const PlanSettings waiting = quotasOf({24, 24, 24}, 8);
  auto lastOf = [&](const PlanProblem &problem) {
    return searchMisses(problem, waiting, 1).value().ladders.back().back().settings;
  };
  const PlanSettings filled = lastOf(fixture.problem());
  CHECK(filled.miss.action == MissAction::kMask);
  CHECK_FALSE(filled.rules.exchange.exchanges());
  REQUIRE(filled.start.size() == 3);
  for (const std::vector<uint32_t> &start : filled.start)
    CHECK(start.size() >= 12); // There are sixteen.
  const std::vector<std::vector<uint32_t>> norms(3, std::vector<uint32_t>(16, kFixedPointOne));
  PlanProblem problem = fixture.problem();
  problem.expertNorms = norms;
  const MissLadders found = searchMisses(problem, waiting, 1).value();
  const auto &ladder = found.ladders.back();
  CHECK(std::ranges::any_of(ladder, [](const MissRung &rung) {
    return rung.settings.miss.action == MissAction::kMask &&
           rung.settings.rules.exchange.exchanges();
  }));
}

TEST_CASE("where everything is in memory no rule is faster, and there is no ladder") {
  ScoredFixture fixture(3 * 32 + 8);
  PlanSettings waiting = quotasOf({32, 32, 32}, 8);
  waiting.start.assign(3, std::vector<uint32_t>(16));
  for (std::vector<uint32_t> &start : waiting.start)
    std::iota(start.begin(), start.end(), 0U);
  const MissLadders found = searchMisses(fixture.problem(), waiting, 1).value();
  CHECK(found.ladders.empty());
  CHECK(found.tried == 105);
}

TEST_CASE("records of one slice are not lowered") {
  ScoredFixture fixture(3 * 8 + 8);
  for (auto &layer : fixture.sliceEnds)
    layer.assign(16, {2 * 4096});
  const MissLadders found = searchMisses(fixture.problem(), quotasOf({8, 8, 8}, 8), 1).value();
  REQUIRE(!found.ladders.empty());
  for (const std::vector<MissRung> &ladder : found.ladders)
    CHECK(ladder.front().settings.miss.action != MissAction::kLower);
}

TEST_CASE("prefetches that a rule makes useless are left out of its rungs") {
  ScoredFixture fixture(3 * 8 + 8);
  std::mt19937 random(3);
  fixture.predictions = goodPrefetches(random, fixture.trace, 4);
  // Whatever is expected, something else is wanted.
  for (LayerPredictions &made : fixture.predictions)
    for (PrefetchCandidate &candidate : made.candidates)
      candidate.expert = (candidate.expert + 5) % 16;
  PlanSettings waiting = quotasOf({8, 8, 8}, 8);
  waiting.prefetches = {{}, {Predictor::kGate, 1, 4, 4, 0}, {Predictor::kGate, 1, 4, 4, 0}};
  const MissLadders found = searchMisses(fixture.problem(), waiting, 1).value();
  REQUIRE(!found.ladders.empty());
  for (const std::vector<MissRung> &ladder : found.ladders)
    for (const MissRung &rung : ladder) {
      CHECK(rung.settings.prefetches.empty());
      // Pages that waited for prefetches are given to the layers.
      CHECK(rung.settings.allotment.totalPages() == fixture.poolPages);
    }
}

TEST_CASE("the weights of a preset's eviction stay with it") {
  const ScoredFixture fixture(3 * 8 + 8);
  PlanSettings waiting = quotasOf({8, 8, 8}, 8);
  waiting.rules.eviction = EvictionPolicy::kWeighted;
  waiting.rules.weights = {.recency = 1, .frequency = 3, .fullFrequency = 0, .nearness = 0};
  const MissLadders found = searchMisses(fixture.problem(), waiting, 2).value();
  REQUIRE(!found.ladders.empty());
  for (const std::vector<MissRung> &ladder : found.ladders)
    for (const MissRung &rung : ladder) {
      CHECK(rung.settings.rules.eviction == EvictionPolicy::kWeighted);
      CHECK(rung.settings.rules.weights == waiting.rules.weights);
    }
}

TEST_CASE("a rung holds low slices alone unless whole records are faster") {
  const ScoredFixture fixture(3 * 8 + 8);
  const PlanProblem problem = fixture.problem();
  const MissLadders found = searchMisses(problem, quotasOf({8, 8, 8}, 8), 2).value();
  PlanTrials trials(problem, 2);
  for (const MissRung &rung : found.ladders[0]) {
    CAPTURE(missRuleText(rung.settings.miss));
    CHECK((rung.settings.rules.baseSlices == 0 || rung.settings.rules.baseSlices == 1));
    PlanSettings other = rung.settings;
    other.rules.baseSlices ^= 1;
    CHECK(trials.measure({&other, 1}).front() >= rung.tokenNs * (1 - kSameTime));
    const bool isSaid = std::ranges::any_of(
        rung.decisions, [](const PlanReason &reason) { return reason.decision == "slices"; });
    CHECK(isSaid == (rung.settings.rules.baseSlices == 0));
  }
}

TEST_CASE("rules are not searched for without scores, and a search can be stopped") {
  const ScoredFixture fixture(3 * 8 + 8);
  CHECK(searchMisses(fixture.PlanFixture::problem(), quotasOf({8, 8, 8}, 8), 1)
            .status()
            .message()
            .find("decides by the routers' scores, which the trace does not have") !=
        std::string::npos);
  const std::atomic<bool> stop = true;
  CHECK(searchMisses(fixture.problem(), quotasOf({8, 8, 8}, 8), 1, &stop).status().code() ==
        StatusCode::kInterrupted);
}
