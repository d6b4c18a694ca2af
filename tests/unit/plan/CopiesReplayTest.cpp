// Records with separate copies in the replays.
#include "compiler/plan/TimedReplay.h"

#include "compiler/plan/Presets.h"
#include "tests/unit/plan/ScoredFixture.h"

#include <array>
#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

namespace {

/// The records of ScoredFixture have a low copy of one page before their two slices.
struct CopiesFixture : ScoredFixture {
  explicit CopiesFixture(uint64_t pool) : ScoredFixture(pool) {
    for (auto &layer : sliceEnds) {
      layer.assign(16, {4096, 2 * 4096, 3 * 4096});
      lowCopySlices.emplace_back(16, uint16_t(1));
    }
  }
  PlanProblem problem() const {
    PlanProblem known = ScoredFixture::problem();
    known.lowCopySlices = lowCopySlices;
    return known;
  }

  std::vector<std::vector<uint16_t>> lowCopySlices;
};

constexpr std::array<MissRule, 3> kRules = {{
    {.action = MissAction::kLower, .waitUpTo = kFixedPointOne / 2},
    {.action = MissAction::kLower, .lowSlices = 2, .waitUpTo = kFixedPointOne / 2},
    {.action = MissAction::kSkip, .waitUpTo = kFixedPointOne / 2},
}};

CacheCounts decodedIn(const PlanProblem &problem, const PlanSettings &settings) {
  return replayTrace(*problem.trace, replayCacheOf(problem, settings), settings.miss,
                     problem.scores)
      ->total;
}

} // namespace

TEST_CASE("with copies the replay in time reads and decides what the one without time does") {
  const CopiesFixture fixture(3 * 24 + 8);
  for (const MissRule &rule : kRules)
    for (uint32_t upperPart : {0u, kFixedPointOne / 2}) {
      PlanSettings settings = quotasOf({24, 24, 24}, 8);
      setMiss(rule, settings);
      if (settings.rules.baseSlices > 0)
        settings.rules.upperPart = upperPart;
      if (upperPart > 0)
        settings.rules.sharing = CacheSharing::kOnePool;
      CAPTURE(missRuleText(rule));
      CAPTURE(upperPart);
      CacheCounts timed = replayInTime(fixture.problem(), settings).value().decode.cache;
      timed.stalled = 0;
      CHECK(timed == decodedIn(fixture.problem(), settings));
      CHECK(timed.hits > 100);
      CHECK((timed.lowMisses > 0) == (rule.action == MissAction::kLower));
    }
}

TEST_CASE(
    "where no expert is lowered copies of high precision are read, as if there were no other") {
  const CopiesFixture copies(3 * 8 + 8);
  const ScoredFixture nested(3 * 8 + 8);
  PlanSettings settings = quotasOf({8, 8, 8}, 8);
  for (const MissRule &rule : {MissRule(), kRules[2]}) {
    setMiss(rule, settings);
    CHECK(decodedIn(copies.problem(), settings) == decodedIn(nested.problem(), settings));
  }
}

TEST_CASE("the pool has to hold the larger copy") {
  const CopiesFixture fixture(2);
  PlanSettings settings = quotasOf({0, 0, 0}, 2);
  setMiss(kRules[0], settings);
  CHECK(verify(fixture.problem(), settings).message() == "");
  settings.allotment.stagingPages = 1;
  CHECK(verify(fixture.problem(), settings).message() ==
        "MoE layer 0 may hold 1 pages, its largest record needs 2");
}

TEST_CASE("copies that their records do not have are refused") {
  CopiesFixture fixture(3 * 8 + 8);
  PlanSettings settings = quotasOf({8, 8, 8}, 8);
  setMiss(kRules[0], settings);
  fixture.lowCopySlices[1][3] = 3;
  CHECK(verify(fixture.problem(), settings).message() ==
        "MoE layer 1 has slices that do not fill its records");
  fixture.lowCopySlices[1][3] = 0; // Its slices together are larger than the record.
  CHECK(verify(fixture.problem(), settings).message() ==
        "MoE layer 1 has slices that do not fill its records");
  fixture.lowCopySlices[1].pop_back();
  CHECK(verify(fixture.problem(), settings).message() ==
        "MoE layer 1 has slices that do not fill its records");
  fixture.lowCopySlices.pop_back();
  CHECK(check(fixture.problem()).message() ==
        "slices or scores of 2 MoE layers, expected 3 or none");
}

TEST_CASE("hobbit divides its pool between low copies and high ones") {
  const CopiesFixture fixture(3 * 8 + 8);
  const PlannedSettings fitted = planPreset(Preset::kHobbit, fixture.problem());
  PlanSettings settings = fitted.settings;
  CHECK(settings.rules.upperPart > 0);
  CHECK(fitted.decisions.back().value.find(" of the pages for copies of high precision") !=
        std::string::npos);
  setMiss(kRules[0], settings);
  const CacheCounts counts = decodedIn(fixture.problem(), settings);
  CHECK(counts.lowHits > 100);
  CHECK(counts.hits > counts.lowHits + 100);
}

TEST_CASE("only nested slices can be held with their record or alone") {
  CopiesFixture fixture(3 * 8 + 8);
  CHECK(hasNestedSlices(static_cast<const ScoredFixture &>(fixture).problem()));
  CHECK_FALSE(hasNestedSlices(fixture.problem()));
  fixture.lowCopySlices[2][5] = 0;
  CHECK(hasNestedSlices(fixture.problem()));
}

TEST_CASE("a depth of prediction that cannot be had is named with the reasons") {
  const ScoredFixture fixture(3 * 8 + 8); // Without predictions.
  const PlannedSettings planned = planPreset(Preset::kHobbit, fixture.problem(), 2);
  CHECK(planned.settings.prefetches.empty());
  CHECK(planned.decisions.back().decision == "prediction depth");
  CHECK(planned.decisions.back().value == "none");
  CHECK(planned.decisions.back().reason.find("2 ahead was asked for") == 0);
}
