#include "compiler/plan/MissSearch.h"

#include "tests/unit/plan/PlanFixture.h"

#include <doctest/doctest.h>
#include <numeric>

using namespace moec;
using namespace moert;

namespace {

/// Three layers of sixteen experts, of which four are chosen, with weights that halve from rank to
/// rank; records have two slices of half their bytes.
struct MissFixture : PlanFixture {
  explicit MissFixture(uint64_t pool)
      : PlanFixture(decodedTrace(), 4, pool, 2 * 4096), sliceEnds(3) {
    for (uint32_t layer = 0; layer < 3; ++layer) {
      sliceEnds[layer].assign(16, {4096, 2 * 4096});
      LayerScores &known = scores.emplace_back();
      known.topK = known.perToken = 4;
      for (const RoutingPass &pass : trace.passes)
        if (pass.layer == layer)
          for (uint32_t rank = 0; rank < 4; ++rank) {
            const auto expert = static_cast<uint16_t>(trace.wanted[pass.begin + rank]);
            known.chosen.push_back(expert);
            known.weights.push_back(1.0F / static_cast<float>(2 << rank));
            known.likeliest.push_back(expert);
            known.likelihoods.push_back(known.weights.back());
          }
    }
  }
  static RoutingTrace decodedTrace() {
    std::mt19937 random(7);
    return randomTrace(random, 3, 16, 4, std::vector<TraceStep>(300));
  }
  PlanProblem problem() const {
    PlanProblem known = PlanFixture::problem();
    known.sliceEnds = sliceEnds;
    known.scores = scores;
    return known;
  }

  std::vector<std::vector<std::vector<uint64_t>>> sliceEnds;
  std::vector<LayerScores> scores;
};

} // namespace

TEST_CASE("ladders go from safe to lossy, and each rung is faster than the one before") {
  const MissFixture fixture(3 * 8 + 8);
  const PlanSettings waiting = quotasOf({8, 8, 8}, 8);
  const MissLadders found = searchMisses(fixture.problem(), waiting, 2).value();
  REQUIRE(found.ladders.size() >= 2);
  CHECK(found.ladders[0].front().settings.miss.action == MissAction::kLower);
  CHECK(found.ladders[1].front().settings.miss.action == MissAction::kSkip);
  for (const std::vector<MissRung> &ladder : found.ladders) {
    double before = found.waitingNs;
    MissRule safer = {.waitUpTo = kFixedPointOne};
    for (const MissRung &rung : ladder) {
      CHECK(rung.tokenNs <= before * (1 - kMinRungGain));
      CHECK(rung.settings.miss.waitUpTo <= safer.waitUpTo);
      CHECK(rung.settings.miss.skipBeyond <= safer.skipBeyond);
      CHECK(rung.settings.allotment == waiting.allotment);
      before = rung.tokenNs;
      safer = rung.settings.miss;
    }
  }
}

TEST_CASE("where everything is in memory no rule is faster, and there is no ladder") {
  MissFixture fixture(3 * 32 + 8);
  PlanSettings waiting = quotasOf({32, 32, 32}, 8);
  waiting.start.assign(3, std::vector<uint32_t>(16));
  for (std::vector<uint32_t> &start : waiting.start)
    std::iota(start.begin(), start.end(), 0U);
  const MissLadders found = searchMisses(fixture.problem(), waiting, 1).value();
  CHECK(found.ladders.empty());
  CHECK(found.tried > 20);
}

TEST_CASE("records of one slice are not lowered") {
  MissFixture fixture(3 * 8 + 8);
  for (auto &layer : fixture.sliceEnds)
    layer.assign(16, {2 * 4096});
  const MissLadders found = searchMisses(fixture.problem(), quotasOf({8, 8, 8}, 8), 1).value();
  REQUIRE(!found.ladders.empty());
  for (const std::vector<MissRung> &ladder : found.ladders)
    CHECK(ladder.front().settings.miss.action != MissAction::kLower);
}

TEST_CASE("prefetches that a rule makes useless are left out of its rungs") {
  MissFixture fixture(3 * 8 + 8);
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
    for (const MissRung &rung : ladder)
      CHECK(rung.settings.prefetches.empty());
}

TEST_CASE("rules are not searched for without scores, and a search can be stopped") {
  const MissFixture fixture(3 * 8 + 8);
  CHECK(searchMisses(fixture.PlanFixture::problem(), quotasOf({8, 8, 8}, 8), 1)
            .status()
            .message()
            .find("decides by the routers' scores, which the trace does not have") !=
        std::string::npos);
  const std::atomic<bool> stop = true;
  CHECK(searchMisses(fixture.problem(), quotasOf({8, 8, 8}, 8), 1, &stop).status().code() ==
        StatusCode::kInterrupted);
}
