#include "compiler/planning/PicturePlan.h"

#include "compiler/plan/TimedReplay.h"
#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/planning/TinyPlanning.h"

#include <algorithm>
#include <doctest/doctest.h>

using namespace moec;
using moert::Plan;

namespace {

/// Between its layer passes, a layer has room for one expert and for those that one token uses; in
/// the first layer expert 2 is pinned, the second one is prefetched.
PlannedArtifact tinyPlanned() {
  PlannedArtifact planned;
  planned.artifact = tinyArtifact();
  planned.trace = smallTrace();
  planned.trace->layers[0].chosen = {0, 1, 2, 1, 1, 2, 1, 3};
  planned.device = plainDevice();
  Plan &plan = planned.artifact.plans.front();
  plan.name = "50%";
  plan.preset = "auto";
  auto pagesOf = [&](size_t layer) {
    uint64_t most = 0;
    for (const moert::Expert &expert : planned.artifact.moeLayers[layer].experts)
      most = std::max(most, expert.bytes);
    return static_cast<uint32_t>(most / 4096);
  };
  plan.quotaPages = {pagesOf(0), pagesOf(1)};
  plan.stagingPages = 2 * std::max(pagesOf(0), pagesOf(1));
  plan.pinned = {{2}, {}};
  plan.prefetches = {{}, {moert::Predictor::kGate, 1, 2, 1, 0}};
  plan.forecast.emplace();
  plan.forecast->tokenNs = plan.forecast->boundNs = 1;
  planned.facts = factsOf(planned.artifact);
  return planned;
}

std::string refusal(const PlannedArtifact &planned) {
  auto made = picturePlan(planned, "tiny.moe");
  return made.isOk() ? "" : made.status().message();
}

} // namespace

TEST_CASE("a picture has the experts of each layer, the most used first, with pins and quotas") {
  auto made = picturePlan(tinyPlanned(), "folder/tiny.moe");
  REQUIRE(made.isOk());
  CHECK(made->title == "Plan 50% of tiny.moe, preset auto");
  REQUIRE(made->layers.size() == 2);
  const PicturedLayer &first = made->layers[0];
  REQUIRE(first.experts.size() == 4);
  // A prompt of one token is decoded too: of the second window's two tokens both use expert 1, one
  // uses expert 2. The first window is not counted.
  CHECK(first.experts[0].wantedFraction == 1);
  CHECK(first.experts[1].wantedFraction == 0.5);
  CHECK(first.experts[1].isPinned);
  CHECK(first.experts[1].foundFraction == 1); // Pinned, and read in the first window.
  CHECK(first.experts[3].wantedFraction == 0);
  CHECK(first.room == "1 of 4");
  CHECK(first.keptExperts == 1);
  CHECK(first.prefetches == "none");
  CHECK(made->layers[1].prefetches == "gate 1 ahead, 1 of 2");
}

TEST_CASE("the number of kept experts is computed from their mean size") {
  PlannedArtifact planned = tinyPlanned();
  std::vector<moert::Expert> &experts = planned.artifact.moeLayers[0].experts;
  experts[0].slices[0].bytes *= 4;
  uint64_t bytes = 0;
  for (const moert::Expert &expert : experts)
    bytes += fullBytesOf(expert);
  Plan &plan = planned.artifact.plans.front();
  plan.stagingPages *= 4;
  const auto roomOf = [&](uint64_t roomBytes) {
    plan.quotaPages[0] = static_cast<uint32_t>(roomBytes / 4096);
    planned.facts = factsOf(planned.artifact);
    auto made = picturePlan(planned, "tiny.moe");
    return made.isOk() ? made->layers[0].room : made.status().message();
  };
  CHECK(roomOf(bytes) == "4 of 4");
  CHECK(roomOf(bytes / 2) == "2 of 4");
}

TEST_CASE("a picture's hits are those of the timed replay") {
  const PlannedArtifact planned = tinyPlanned();
  auto made = picturePlan(planned, "tiny.moe");
  const KnownRouting routing = routingOf(*planned.trace, {}, planned.facts).value();
  const PlanInputs inputs(planned.facts, routing, *planned.device);
  REQUIRE(made.isOk());
  const Plan &plan = planned.artifact.plans[0];
  PlanSettings settings;
  settings.allotment = {plan.stagingPages, plan.quotaPages};
  settings.rules = plan.rules;
  settings.pinned = plan.pinned;
  auto result = replayInTime(inputs.forecastProblem(settings.allotment.totalPages()), settings,
                             {.fromStep = routing.decidingSteps()});
  REQUIRE(result.isOk());
  CHECK(result->decode.cache.hits > 0);
  // The second window's two tokens, with two experts in each of two layers.
  CHECK(made->hitRateOfAll * 8 == double(result->decode.cache.hits));
}

TEST_CASE("a picture shows the layer passes of one token in sequence") {
  auto made = picturePlan(tinyPlanned(), "tiny.moe");
  REQUIRE(made.isOk());
  uint32_t experts = 0;
  for (const PicturedLayer &layer : made->layers)
    experts += layer.turn.held + layer.turn.arrived + layer.turn.late + layer.turn.asked;
  CHECK(experts == 4); // A token uses two experts in each of two layers.
  const PicturedTurn &last = made->layers.back().turn;
  CHECK(made->layers[0].turn.beginMs == doctest::Approx(0));
  CHECK(made->layers[0].turn.endMs == last.beginMs);
  CHECK(last.routedMs > last.beginMs);
  CHECK(last.endMs - last.routedMs >= last.waitMs);
  CHECK(made->tokenMs > last.endMs); // The head follows.
}

TEST_CASE("a shared pool is not shown as quotas of layers") {
  PlannedArtifact planned = tinyPlanned();
  planned.artifact.plans[0].rules.sharing = moert::CacheSharing::kOnePool;
  auto made = picturePlan(planned, "tiny.moe");
  REQUIRE(made.isOk());
  CHECK(made->layers[0].room == "shared");
  CHECK(made->layers[0].keptExperts == 0);
  CHECK(made->roomOfAll == "2 of 8");
}

TEST_CASE(
    "a picture without a trace or a device is refused, and the message names what is missing") {
  PlannedArtifact planned = tinyPlanned();
  planned.device.reset();
  CHECK(refusal(planned) == "a picture of a plan needs a device: give --device");
  planned.trace.reset();
  CHECK(refusal(planned) == "a picture of a plan needs a trace: give --calibration, or compile the "
                            "artifact with --calibration-text; and a device: give --device");
  planned = tinyPlanned();
  planned.artifact.plans.clear();
  CHECK(refusal(planned) != "");
}

TEST_CASE("settings that the artifact's pool does not hold are not drawn") {
  PlannedArtifact planned = tinyPlanned();
  planned.artifact.plans[0].quotaPages = {0, 0};
  planned.artifact.plans[0].stagingPages = 0;
  CHECK(refusal(planned) != "");
}

TEST_CASE("no line of a picture is too long for it") {
  auto made = picturePlan(tinyPlanned(), "tiny.moe");
  REQUIRE(made.isOk());
  CHECK(drawPlan(*made).find("\u2026") == std::string::npos);
}
