#include "compiler/plan/PlanProblem.h"

#include "tests/unit/plan/PlanFixture.h"

#include <doctest/doctest.h>
#include <limits>

using namespace moec;
using namespace moert;

/// Three layers of four experts, of which a token takes two, and prefetches of the last two.
static PlanFixture someProblem() {
  std::mt19937 random(1);
  PlanFixture fixture(randomTrace(random, 3, 4, 2, stepsOfWindows(1, 6, 3, 2)), 2, 12);
  fixture.predictions = goodPrefetches(random, fixture.trace, 3);
  return fixture;
}

template <typename Change> static std::string refusal(Change change) {
  PlanFixture fixture = someProblem();
  change(fixture);
  return check(fixture.problem()).message();
}

TEST_CASE("a problem that fits together is accepted") {
  CHECK(refusal([](PlanFixture &) {}) == "");
}

TEST_CASE("a problem that contradicts itself is refused with the numbers") {
  CHECK(refusal([](PlanFixture &f) { f.trace.passes.pop_back(); }) ==
        "a trace of 14 turns of 3 MoE layers is not one of whole steps");
  CHECK(refusal([](PlanFixture &f) { f.trace.passes[1].layer = 2; }) ==
        "turn 1 of the trace is of MoE layer 2 and 2 tokens, expected layer 1 and 2 tokens");
  CHECK(refusal([](PlanFixture &f) { f.trace.wanted[0] = 4; }) ==
        "turn 0 of the trace wants expert 4 of MoE layer 0, which has 4");
  CHECK(refusal([](PlanFixture &f) { f.recordBytes[1].pop_back(); }) ==
        "MoE layer 1 has 4 experts in the trace and 3 records, none of which may be empty");
  CHECK(refusal([](PlanFixture &f) { f.topK[2] = 5; }) == "MoE layer 2 chooses 5 of 4 experts");
  CHECK(refusal([](PlanFixture &f) { f.costs.layers.pop_back(); }) ==
        "the trace has 3 MoE layers, there are records of 3, choices of 3 and costs of 2");
  CHECK(refusal([](PlanFixture &f) { f.recordBytes[0][0] = 13 * 4096; }) ==
        "a pool of 12 pages, expected 13 for the largest record to 4294967295");
  CHECK(refusal([](PlanFixture &f) {
          f.costs.layers[1].expert.firstNs = std::numeric_limits<double>::infinity();
        }) == "a cost of MoE layer 1 is not a time");
  CHECK(refusal([](PlanFixture &f) {
          f.costs.layers[2].checks.sliceNs = {5, -1};
        }) == "a cost of MoE layer 2 is not a time");
  CHECK(refusal([](PlanFixture &f) { f.costs.layers[2].checks.slices = 0; }) ==
        "the checks of MoE layer 2 have 0 slices and 1 threads, expected at least 1 of each");
  CHECK(refusal([](PlanFixture &f) { f.costs.layers[0].checks.sliceNs.clear(); }) ==
        "the checks of MoE layer 0 have 1 slices and 0 threads, expected at least 1 of each");
  CHECK(refusal([](PlanFixture &f) { f.costs.after.furtherNs = -1; }) ==
        "the cost after the last MoE layer is not a time");
  CHECK(refusal([](PlanFixture &f) { f.reads.depths.push_back(2); }) ==
        "the device's table of reads has 1 rates of 1 sizes and 2 depths");
  CHECK(refusal([](PlanFixture &f) { f.reads.bytesPerSecond[0].value = 0; }) ==
        "the device reads 0 bytes/s");
  auto withReused = [](uint64_t bytes, double factor) {
    return refusal([&](PlanFixture &f) {
      f.reads.reused = {{4096, {1, Origin::kMeasured}}, {bytes, {factor, Origin::kMeasured}}};
    });
  };
  CHECK(withReused(8192, 2) == "");
  CHECK(withReused(8192, 0) == "the device reads into reused memory at 0 of its rates");
  CHECK(withReused(4096, 2) == "the device has a rate for memory reused after 4096 bytes, expected "
                               "more than 4096 and less than 134217728");
  CHECK(withReused(134217728, 2) ==
        "the device has a rate for memory reused after 134217728 bytes, "
        "expected more than 4096 and less than 134217728");
}

TEST_CASE("the second MoE layer has paths, from the first alone") {
  CHECK(refusal([](PlanFixture &f) { f.predictions[0].predictor = Predictor::kPaths; }) == "");
}

TEST_CASE("predictions that are not of the trace are refused") {
  CHECK(refusal([](PlanFixture &f) { f.predictions[0].ahead = 2; }) ==
        "predictions of MoE layer 1 from 2 layers before it, of 3");
  CHECK(refusal([](PlanFixture &f) { f.predictions[0].layer = 0; }) ==
        "predictions of MoE layer 0 from 1 layers before it, of 3");
  CHECK(refusal([](PlanFixture &f) {
          f.predictions[0].predictor = Predictor::kPaths;
          f.predictions[0].layer = 0;
        }) == "predictions of MoE layer 0 from 1 layers before it, of 3");
  CHECK(refusal([](PlanFixture &f) { f.predictions[0].candidates.pop_back(); }) ==
        "predictions of MoE layer 1 have 17 candidates, 3 a token, expected those of 6 tokens and "
        "4 experts");
  CHECK(refusal([](PlanFixture &f) { f.predictions[1].candidates[0].expert = 4; }) != "");
  CHECK(refusal([](PlanFixture &f) { f.predictions.push_back(f.predictions[0]); }) ==
        "predictions of MoE layer 1 from 1 layers before it are there twice");
}

template <typename Change> static std::string settingsRefusal(Change change) {
  PlanFixture fixture = someProblem();
  PlanSettings settings = quotasOf({3, 3, 2}, 4);
  settings.prefetches = {{}, {Predictor::kGate, 1, 3, 2, 0}, {Predictor::kGate, 2, 2, 1, 5}};
  change(settings);
  return verify(fixture.problem(), settings).message();
}

TEST_CASE("settings that the pool and the rules allow are accepted") {
  CHECK(settingsRefusal([](PlanSettings &) {}) == "");
  CHECK(settingsRefusal([](PlanSettings &s) { s.prefetches.clear(); }) == "");
  CHECK(settingsRefusal([](PlanSettings &s) { s.pinned = {{0}, {}, {1, 2}}; }) == "");
}

TEST_CASE("settings that the pool does not hold or the runtime forbids are refused") {
  CHECK(settingsRefusal([](PlanSettings &s) { s.allotment.stagingPages = 5; }) ==
        "quotas and staging have 13 pages, the pool has 12");
  CHECK(settingsRefusal([](PlanSettings &s) { s.allotment.quotaPages.pop_back(); }) ==
        "quotas of 2 MoE layers, expected 3");
  CHECK(settingsRefusal([](PlanSettings &s) {
          s.allotment = {0, {3, 3, 0}};
        }) == "MoE layer 2 may hold 0 pages, its largest record needs 1");
  CHECK(settingsRefusal([](PlanSettings &s) {
          s.pinned = {{}, {}, {0, 1, 2}};
        }) == "MoE layer 2 expert 2 cannot be pinned: it has 1 pages, 2 of 2 are pinned");
  CHECK(settingsRefusal([](PlanSettings &s) {
          s.start = {{4}, {}, {}};
        }) == "MoE layer 0 has 4 experts, its plan names 4");
  CHECK(settingsRefusal([](PlanSettings &s) { s.prefetches[1].ahead = 2; }) ==
        "MoE layer 1 cannot be prefetched 2 layers before it");
  CHECK(settingsRefusal([](PlanSettings &s) { s.prefetches[2].candidates = 4; }) ==
        "MoE layer 2 is prefetched with 4 candidates, of which 1 are read; 3 are known");
  CHECK(settingsRefusal([](PlanSettings &s) { s.prefetches[2].reads = 0; }) != "");
  CHECK(settingsRefusal([](PlanSettings &s) {
          s.prefetches[2] = {Predictor::kPaths, 1, 2, 1, 0};
        }) == "nothing is known of prefetches of MoE layer 2 from 1 layers before it");
}

TEST_CASE("an adaptive rule needs the predictions of all its distances") {
  PlanFixture fixture = someProblem();
  PlanSettings settings = quotasOf({3, 3, 2}, 4);
  const PrefetchRule adaptive = {Predictor::kAdaptiveGate, 2, 2, 1, 0};
  settings.prefetches = {{}, {}, adaptive};
  CHECK(verify(fixture.problem(), settings).message() == "");
  CHECK(knownCandidates(fixture.problem(), adaptive, 2) == 3);
  CHECK(knownCandidates(fixture.problem(), {}, 2) == 0);
  CHECK(knownCandidates(fixture.problem(), {Predictor::kGate, 0, 2, 1, 0}, 2) == 0);
  CHECK(prefetchText(adaptive) == "adaptive-gate, 1 to 2 ahead, 1 of 2 likeliest");
  CHECK(prefetchText({Predictor::kGate, 2, 2, 1, 0}) == "gate, 2 ahead, 1 of 2 likeliest");
  std::erase_if(fixture.predictions,
                [](const LayerPredictions &made) { return made.layer == 2 && made.ahead == 1; });
  CHECK(knownCandidates(fixture.problem(), adaptive, 2) == 0);
  CHECK(verify(fixture.problem(), settings).message() ==
        "nothing is known of prefetches of MoE layer 2 from 2 layers before it");
  settings.prefetches[2].predictor = Predictor::kGate;
  CHECK(verify(fixture.problem(), settings).message() == "");
}
