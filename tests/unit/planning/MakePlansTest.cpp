#include "compiler/plan/MakePlans.h"

#include "compiler/plan/PlanForecast.h"
#include "compiler/planning/PlanningSession.h"
#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/planning/TinyPlanning.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>

using namespace moec;
using namespace moert;

namespace {

/// Plans for the tiny artifact, one per preset, from a trace and a device; records the progress.
class Planning : public Progress {
public:
  explicit Planning(std::vector<Preset> presets) {
    use.presets = std::move(presets);
    for (Preset preset : use.presets) {
      BudgetPlan &budget = budgets.emplace_back();
      budget.name = presetName(preset);
      budget.contextTokens = budget.prefillChunk = 4;
      budget.allotment = allotFor(preset, facts.footprint.cache, 9);
      budget.preset = preset;
    }
  }

  Result<std::vector<Plan>> run(const std::atomic<bool> *stop = nullptr) {
    return makePlans(facts, budgets, use, {&routing, &device}, widths, watchOf({this, stop, {}}));
  }

  void begin(std::string_view, uint64_t totalBytes, uint64_t) override { total = totalBytes; }
  void advanceTo(uint64_t done) override { told.push_back(done); }
  void end() override { hasEnded = true; }

  const ModelFacts facts = factsOf(tinyArtifact());
  const KnownRouting routing = routingOf(smallTrace(), {}, facts).value();
  const DeviceProfile device = plainDevice();
  PlannedUse use;
  std::vector<BudgetPlan> budgets;
  std::optional<WidthsReason> widths;
  uint64_t total = 0;
  std::vector<uint64_t> told;
  bool hasEnded = false;
};

} // namespace

TEST_CASE("progress grows within a plan that is searched, and every plan counts the same") {
  Planning planning({Preset::kAuto, Preset::kLru});
  REQUIRE(planning.run().isOk());
  REQUIRE(planning.told.size() > 4);
  CHECK(std::is_sorted(planning.told.begin(), planning.told.end()));
  CHECK(planning.told.front() > 0);
  CHECK(planning.told.front() < planning.total / 2);
  CHECK(planning.told[planning.told.size() - 2] == planning.total / 2);
  CHECK(planning.told.back() == planning.total);
  CHECK(planning.hasEnded);
}

TEST_CASE(
    "the reason for the widths comes first, as uncertain as the forecast if times chose them") {
  for (const bool isTimed : {false, true}) {
    Planning planning({Preset::kAuto, Preset::kLru});
    planning.widths = {{"widths", "least time", "10 ms a token", Origin::kMeasured}, isTimed};
    const std::vector<Plan> plans = planning.run().value();
    for (const Plan &plan : plans) {
      REQUIRE(plan.reasons.size() > 1);
      REQUIRE(plan.forecast);
      CHECK(plan.forecast->origin > Origin::kMeasured);
      PlanReason expected = planning.widths->reason;
      expected.origin = isTimed ? plan.forecast->origin : Origin::kMeasured;
      CHECK(plan.reasons.front() == expected);
    }
  }
}

TEST_CASE(
    "plans have a forecast if the routing and the times are known, otherwise they follow rules") {
  Planning planning({Preset::kLru});
  const std::vector<Plan> known = planning.run().value();
  CHECK(known.front().forecast);
  for (const PlanBasis &basis :
       {PlanBasis{&planning.routing, nullptr}, PlanBasis{nullptr, &planning.device}, PlanBasis{}}) {
    const std::vector<Plan> plans =
        makePlans(planning.facts, planning.budgets, planning.use, basis).value();
    const Plan &plan = plans.front();
    CHECK_FALSE(plan.forecast);
    CHECK(plan.quotaPages == planning.budgets.front().allotment.quotaPages);
    CHECK(plan.reasons.size() == 3);
  }
}

TEST_CASE("the replay's settings of a plan are those that the planner found") {
  Planning planning({Preset::kAuto, Preset::kEdgeMoe});
  const std::vector<Plan> plans = planning.run().value();
  for (const Plan &plan : plans) {
    const PlanInputs inputs(planning.facts, planning.routing, planning.device);
    const Forecast forecast = forecastOf(inputs.forecastProblem(poolPagesOf(plan)),
                                         settingsOf(plan), planning.routing.decidingSteps())
                                  .value();
    CHECK(forecast.tokenNs == plan.forecast->tokenNs);
    CHECK(forecast.hitRate == plan.forecast->hitRate);
  }
}

TEST_CASE("presets that prefetch need a trace and a device") {
  const std::vector<Preset> some = {Preset::kAuto, Preset::kFate};
  CHECK(checkPrefetching(some, true, true).isOk());
  CHECK(checkPrefetching(std::span(some).first(1), false, false).isOk());
  CHECK(checkPrefetching(some, false, true).message().find("must contain a trace") !=
        std::string::npos);
  CHECK(checkPrefetching(some, true, false).message().find("--device") != std::string::npos);
}

TEST_CASE("planning that is interrupted reports only that") {
  const std::atomic<bool> stop = true;
  Planning planning({Preset::kAuto});
  const Status status = planning.run(&stop).status();
  CHECK(status.code() == StatusCode::kInterrupted);
  CHECK(status.message() == "interrupted");
}
