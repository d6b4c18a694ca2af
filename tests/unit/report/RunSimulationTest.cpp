#include "compiler/report/RunSimulation.h"

#include "tests/unit/report/TinyRun.h"

#include <doctest/doctest.h>

using namespace moec;
using doctest::Approx;

namespace {

std::unique_ptr<RunSimulation> simulationOf(const ReportInputs &inputs) {
  auto made = RunSimulation::create(inputs, inputs.runs[0]);
  REQUIRE_MESSAGE(made.isOk(), made.status().message());
  return std::move(made).value();
}

double simulatedNs(const RunSimulation &simulation, const RunSimulation::Change &change) {
  auto simulated = simulation.simulate(change);
  REQUIRE_MESSAGE(simulated.isOk(), simulated.status().message());
  return simulated->tokenNs;
}

} // namespace

TEST_CASE("the simulation of a run waits and computes as long as the run did") {
  const ReportInputs inputs = tinyInputs({}, roundRobin);
  const auto simulation = simulationOf(inputs);
  const PhaseTotals &decode = inputs.runs[0].decode;
  const double tokens = double(decode.steps);
  CHECK(simulation->disk().isFitted);
  // The fit ends within 0.5% of each.
  CHECK(simulation->base().waitNs == Approx(double(decode.sum().waitNs) / tokens).epsilon(0.006));
  CHECK(simulation->base().tokenNs == Approx(double(decode.wallNs) / tokens).epsilon(0.006));
}

TEST_CASE("a run that hardly waits gives no rate of the disk") {
  TinyTimes times;
  times.waitNs = 100;
  const ReportInputs inputs = tinyInputs(times, roundRobin);
  CHECK(!simulationOf(inputs)->disk().isFitted);
}

TEST_CASE("a faster disk shortens the waits alone") {
  const ReportInputs inputs = tinyInputs({}, roundRobin);
  const auto simulation = simulationOf(inputs);
  const Simulated fast = simulation->simulate({.readRate = 1e6, .readLatency = 1e-6}).value();
  CHECK(fast.waitNs < 0.001 * simulation->base().waitNs);
  CHECK(fast.computeNs == Approx(simulation->base().computeNs).epsilon(1e-6));
  CHECK(simulatedNs(*simulation, {.readRate = 2}) < simulation->base().tokenNs);
  CHECK(simulatedNs(*simulation, {.readRate = 0.5}) > simulation->base().tokenNs);
}

TEST_CASE("a pool for all experts reads each expert once, and the prompt has read some") {
  const ReportInputs inputs = tinyInputs({}, roundRobin);
  const auto simulation = simulationOf(inputs);
  const uint64_t pages = moert::largestPoolPages(shapeOf(simulation->problem()));
  const Simulated all = simulation->simulate({.poolPages = pages}).value();
  CHECK(all.hitRate > simulation->base().hitRate);
  // At most each of them once, in 30 tokens.
  CHECK(all.bytesRead * 30 <= double(inputs.artifact.recordsBytes));
}

TEST_CASE("smaller experts are read and computed faster") {
  const ReportInputs inputs = tinyInputs({}, roundRobin);
  const auto simulation = simulationOf(inputs);
  const Simulated half = simulation->simulate({.expertBytes = 0.5}).value();
  CHECK(half.tokenNs < simulation->base().tokenNs);
  CHECK(half.computeNs < simulation->base().computeNs);
}

TEST_CASE("experts that are a little larger take a little more memory, not a page each") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  for (std::vector<uint64_t> &layer : inputs.facts.recordBytes)
    for (uint64_t &bytes : layer)
      bytes = inputs.artifact.pageBytes; // A whole page.
  const auto simulation = simulationOf(inputs);
  const Simulated same = simulation->simulate({.expertBytes = 1.001}).value();
  CHECK(same.hitRate == Approx(simulation->base().hitRate));
  const Simulated twice = simulation->simulate({.expertBytes = 2}).value();
  CHECK(twice.hitRate < simulation->base().hitRate);
}

TEST_CASE("experts that were just checked and compute faster for it do so no more once they hit") {
  // Every second step misses both experts of each layer, the others none; in the mean nothing
  // differs.
  const auto computeNsOfHits = [](uint64_t savedNs, uint64_t checkNs = 10'000) {
    ReportInputs inputs = tinyInputs({}, roundRobin);
    RunRecord &run = inputs.runs[0];
    for (size_t i = 0; i < run.steps.size(); ++i) {
      RecordedStep &step = run.steps[i];
      const bool misses = i % 2 == 1;
      for (uint32_t layer = 0; layer < run.layers; ++layer) {
        step.layers[layer].misses = misses ? 2 : 0;
        step.layers[layer].hits = misses ? 0 : 2;
        step.layers[layer].computeNs += misses ? 2 * (checkNs - savedNs) : 2 * savedNs;
        step.step.partNs[size_t(moert::StepPart::kChecksums)] += misses ? 2 * checkNs : 0;
        step.step.partNs[size_t(moert::StepPart::kExperts)] += misses ? -2 * savedNs : 2 * savedNs;
      }
      step.step.wallNs = step.computeNs() + step.waitNs();
    }
    const auto simulation = simulationOf(inputs);
    const uint64_t pages = moert::largestPoolPages(shapeOf(simulation->problem()));
    return simulation->simulate({.poolPages = pages}).value().computeNs;
  };
  // A hit takes 2 * savedNs longer than a miss, and all four experts of a token miss in the replay
  // of this run, whose computing is fitted to the mean.
  CHECK(computeNsOfHits(2'000) - computeNsOfHits(0) == Approx(4 * 2 * 2'000).epsilon(0.05));
  // No check saves more than it takes, whatever the rounding.
  for (uint64_t checkNs = 10'001; checkNs < 10'020; ++checkNs)
    CHECK(computeNsOfHits(checkNs - 1, checkNs) > 0);
}

TEST_CASE("the calibration trace is replayed with the run's disk and plan") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  CHECK(!simulationOf(inputs)->hasCalibration());
  inputs.trace = tinyTrace(alwaysTheSame);
  const auto simulation = simulationOf(inputs);
  REQUIRE(simulation->hasCalibration());
  CHECK(simulatedNs(*simulation, {.isOnCalibration = true}) < simulation->base().tokenNs);
}

TEST_CASE("a run that a miss rule changed is replayed with the rule, on the calibration trace") {
  const ReportInputs lossy = skippingInputs();
  const auto simulation = simulationOf(lossy);
  CHECK(simulation->appliesMissRule());
  const PhaseTotals &decode = lossy.runs[0].decode;
  const double tokens = double(decode.steps);
  CHECK(simulation->base().tokenNs == Approx(double(decode.wallNs) / tokens).epsilon(0.006));
  CHECK(simulatedNs(*simulation, {.readRate = 2}) < simulation->base().tokenNs);
  CHECK(simulatedNs(*simulation, {.expertBytes = 0.5}) < simulation->base().tokenNs);
  // Everything that replays the run's own routes waits.
  CHECK_FALSE(simulation->settingsFor(simulation->poolPages()).miss.isLossy());

  ReportInputs exact = lossy;
  for (moert::LayerTotals &layer : exact.runs[0].decode.layers)
    layer.skipped = 0;
  const auto waiting = simulationOf(exact);
  CHECK_FALSE(waiting->isLossy());
  CHECK_FALSE(waiting->appliesMissRule());
  CHECK(simulation->base().bytesRead < waiting->base().bytesRead);
}

TEST_CASE("without scores a run that a miss rule changed is replayed waiting") {
  ReportInputs inputs = skippingInputs();
  inputs.trace = tinyTrace(roundRobin);
  const auto simulation = simulationOf(inputs);
  CHECK(simulation->isLossy());
  CHECK_FALSE(simulation->appliesMissRule());
}

TEST_CASE("slices are as much smaller as their records") {
  for (bool hasCopies : {false, true}) {
    CAPTURE(hasCopies);
    ReportInputs inputs = skippingInputs();
    inputs.artifact.plans[0].miss = {.action = moert::MissAction::kLower};
    for (size_t l = 0; l < inputs.facts.sliceEnds.size(); ++l)
      for (size_t e = 0; e < inputs.facts.sliceEnds[l].size(); ++e) {
        const uint64_t bytes = inputs.facts.recordBytes[l][e],
                       low = hasCopies ? 2 * inputs.facts.footprint.pageBytes : 0;
        inputs.facts.lowCopySlices[l][e] = hasCopies;
        inputs.facts.sliceEnds[l][e] = {hasCopies ? low : bytes / 2, low + bytes};
      }
    const auto simulation = simulationOf(inputs);
    REQUIRE(simulation->appliesMissRule());
    const Simulated half = simulation->simulate({.expertBytes = 0.5}).value();
    CHECK(half.bytesRead < 0.6 * simulation->base().bytesRead); // More of them fit, too.
  }
}

TEST_CASE("a run whose routes end within its prompt is refused") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.runs[0].facts.promptTokens = inputs.runs[0].routedTokens;
  auto made = RunSimulation::create(inputs, inputs.runs[0]);
  REQUIRE(!made.isOk());
  CHECK(made.status().message().find("expected routes of decoded tokens") != std::string::npos);
}

TEST_CASE("prefetches of the plan are replayed with the candidates that the run recorded") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  moert::Plan &plan = inputs.artifact.plans[0];
  plan.prefetches = {{}, {moert::Predictor::kGate, 1, 2, 1, 0}};
  const auto silent = simulationOf(inputs);
  CHECK(silent->settingsFor(silent->poolPages()).prefetches[1].predictor == moert::Predictor::kOff);
  RecordedCandidates &made = inputs.runs[0].candidates[1];
  made.perToken = 2;
  for (uint32_t token = 2; token < 32; ++token)
    for (uint16_t expert : roundRobin(token, 1))
      made.candidates.push_back({expert, moert::kFixedPointOne / 2});
  const auto simulation = simulationOf(inputs);
  CHECK(simulation->settingsFor(simulation->poolPages()).prefetches[1].predictor ==
        moert::Predictor::kGate);
  CHECK(simulation->base().readyRate >= silent->base().readyRate);
}

TEST_CASE("predictions of several distances are replayed each from its own layer") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.artifact.plans[0].prefetches = {{}, {moert::Predictor::kAdaptiveGate, 1, 1, 1, 0}};
  RecordedCandidates &made = inputs.runs[0].candidates[1];
  made = {.perToken = 1, .depths = 2, .candidates = {}};
  for (uint32_t token = 2; token < 32; ++token)
    for (uint32_t expert : {token % 4, 3u}) // Another plan of the artifact reaches further.
      made.candidates.push_back({expert, moert::kFixedPointOne / 2});
  const auto simulation = simulationOf(inputs);
  const PlanProblem problem = simulation->problem();
  REQUIRE(problem.predictions.size() == 1);
  CHECK(problem.predictions[0].predictor == moert::Predictor::kGate);
  CHECK(problem.predictions[0].ahead == 1);
  REQUIRE(problem.predictions[0].candidates.size() == 32);
  for (uint32_t token = 2; token < 32; ++token)
    CHECK(problem.predictions[0].candidates[token].expert == token % 4);
  CHECK(simulation->settingsFor(simulation->poolPages()).prefetches[1] ==
        inputs.artifact.plans[0].prefetches[1]);
}
