#include "compiler/report/Diagnosis.h"

#include "compiler/plan/PresetRules.h"
#include "tests/unit/report/TinyRun.h"

#include <doctest/doctest.h>

using namespace moec;

namespace {

struct Findings {
  std::unique_ptr<RunSimulation> simulation;
  WhatIf whatIf;
  Diagnosis diagnosis;

  explicit Findings(const ReportInputs &inputs) {
    auto made = RunSimulation::create(inputs, inputs.runs[0]);
    REQUIRE_MESSAGE(made.isOk(), made.status().message());
    simulation = std::move(made).value();
    auto asked = askWhatIf(*simulation, {});
    REQUIRE_MESSAGE(asked.isOk(), asked.status().message());
    whatIf = std::move(asked).value();
    auto found = diagnose(*simulation, whatIf);
    REQUIRE_MESSAGE(found.isOk(), found.status().message());
    diagnosis = std::move(found).value();
  }
  Limit first() const { return diagnosis.causes.front().limit; }
};

/// A device that reads records at so many bytes per second.
DeviceProfile deviceOfRate(double bytesPerSecond) {
  DeviceProfile device = plainDevice();
  device.name = "some machine";
  device.fractionWhileReading.value = device.fractionWhileComputing.value = 1;
  device.wakeNs.value = 0;
  device.directReads = {{4096}, {1}, {{bytesPerSecond, Origin::kMeasured}}};
  return device;
}

/// A run that waits, with a prompt of one token and an empty cache with room for every expert.
ReportInputs coldInputs(uint32_t decoded) {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  moert::Plan &plan = inputs.artifact.plans[0];
  const moert::CacheShape shape = moert::cacheShapeOf(inputs.artifact);
  for (size_t l = 0; l < shape.layers.size(); ++l)
    plan.quotaPages[l] = static_cast<uint32_t>(shape.layers[l].allPages);
  RunRecord run = tinyRun(inputs.artifact, {}, roundRobin, 1, decoded);
  run.facts.poolPages = poolPagesOf(plan);
  run.facts.accountedBytes = (1 << 20) + run.facts.poolPages * inputs.artifact.pageBytes;
  run.facts.budgetBytes = run.facts.availableBytes = run.facts.accountedBytes;
  inputs.runs = {run};
  return inputs;
}

} // namespace

TEST_CASE("more memory for a plan with a miss rule is a plan for more memory") {
  auto commandOf = [](ReportInputs inputs) -> std::string {
    inputs.runs[0].facts.availableBytes = uint64_t(1) << 30;
    for (const Advice &advice : Findings(inputs).whatIf.advice)
      if (advice.change.starts_with("more memory: "))
        return advice.command + " | " + advice.basis;
    return "";
  };
  const std::string run = commandOf(tinyInputs({}, roundRobin));
  CHECK(run.starts_with("moert run tiny.moe --ids PROMPT -n 31 --threads 1 "));
  CHECK(run.find(" --memory 1") != std::string::npos);
  const std::string replan = commandOf(skippingInputs());
  CHECK(replan.starts_with("moec replan tiny.moe --memory "));
  CHECK(replan.find(" --context ") != std::string::npos); // The run's, which the memory is for.
  CHECK(replan.find(" --miss skip:0 --reference ") != std::string::npos);
  CHECK(replan.find(" | the calibration text's routes under skip:0") != std::string::npos);
  ReportInputs swapping = skippingInputs();
  swapping.artifact.plans[0].preset = swapping.runs[0].facts.preset = "swapmoe";
  CHECK(commandOf(swapping).find(" --preset swapmoe --miss skip:0 ") != std::string::npos);
  ReportInputs lowering = skippingInputs();
  lowering.artifact.plans[0].preset = lowering.runs[0].facts.preset = "hobbit";
  lowering.artifact.plans[0].miss = missRuleOf(Preset::kHobbit);
  CHECK(commandOf(lowering).find(" --preset hobbit --reference ") != std::string::npos);
}

TEST_CASE("a miss rule may read less than the perfect cache, so computing alone bounds its run") {
  const Findings lossy(skippingInputs());
  CHECK(lossy.diagnosis.boundNs <= lossy.diagnosis.computeNs * 1.01);
}

TEST_CASE("a token's parts add up to its time, the largest first") {
  const ReportInputs inputs = tinyInputs({}, roundRobin);
  const Findings found(inputs);
  double sum = 0;
  for (const TimePart &part : found.diagnosis.parts)
    sum += part.ns;
  CHECK(sum == doctest::Approx(found.diagnosis.tokenNs));
  CHECK(found.diagnosis.parts[0].name == "waiting for reads");
  CHECK(found.diagnosis.boundNs <= found.diagnosis.tokenNs);
}

TEST_CASE("a run that does not wait is limited by computing") {
  TinyTimes times;
  times.waitNs = 0;
  const ReportInputs inputs = tinyInputs(times, alwaysTheSame);
  const Findings found(inputs);
  CHECK(found.first() == Limit::kCompute);
  CHECK(found.diagnosis.causes[0].sentence.find("most of it experts") != std::string::npos);
}

TEST_CASE(
    "a run that waits is limited by its budget where the machine has memory, or by the disk") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  CHECK(Findings(inputs).first() == Limit::kDisk);
  inputs.runs[0].facts.availableBytes = uint64_t(1) << 30;
  const Findings found(inputs);
  CHECK(found.first() == Limit::kMemory);
  REQUIRE(!found.whatIf.advice.empty());
  CHECK(found.whatIf.advice[0].change.starts_with("more memory: "));
  CHECK(found.whatIf.advice[0].predicted.gain > 0.5);
}

TEST_CASE("the most expensive cause comes first, of two that cost the same what was not planned") {
  const auto limitsOf = [](std::vector<Cause> differences, std::optional<Cause> limit) {
    std::vector<Limit> limits;
    for (const Cause &cause : orderedCauses(std::move(differences), std::move(limit)))
      limits.push_back(cause.limit);
    return limits;
  };
  const Cause disk{Limit::kDisk, 9.7e6, ""}, text{Limit::kText, 12e6, ""};
  CHECK(limitsOf({disk}, Cause{Limit::kMemory, 42.5e6, ""}) ==
        std::vector{Limit::kMemory, Limit::kDisk});
  CHECK(limitsOf({disk}, Cause{Limit::kMemory, 10.5e6, ""}) ==
        std::vector{Limit::kDisk, Limit::kMemory});
  CHECK(limitsOf({disk, text}, Cause{Limit::kMemory, 11e6, ""}) ==
        std::vector{Limit::kText, Limit::kMemory, Limit::kDisk});
  CHECK(limitsOf({disk}, std::nullopt) == std::vector{Limit::kDisk});
}

TEST_CASE("a disk slower than its profile is a cause, and advised") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.runs[0].facts.availableBytes = uint64_t(1) << 30;
  const double rate = Findings(inputs).simulation->disk().bytesPerSecond;
  const auto findsDisk = [](const Findings &found) {
    return std::ranges::any_of(found.whatIf.advice, [](const Advice &advice) {
      return advice.change.starts_with("the disk at the rate of its profile: ") &&
             advice.predicted.gain >= kLeastGain;
    });
  };
  inputs.device = deviceOfRate(20 * rate);
  const Findings slow(inputs);
  REQUIRE(slow.diagnosis.causes.size() == 2);
  CHECK(slow.diagnosis.causes[1].limit == Limit::kDisk);
  CHECK(findsDisk(slow));
  inputs.device = deviceOfRate(rate);
  const Findings asProfiled(inputs);
  CHECK(asProfiled.first() == Limit::kMemory);
  CHECK(asProfiled.diagnosis.causes.size() == 1);
  CHECK(!findsDisk(asProfiled));
}

TEST_CASE("a text unlike the calibration text is a cause, one like it is none") {
  ReportInputs inputs = tinyInputs({}, roundRobin);
  inputs.runs[0].facts.availableBytes = uint64_t(1) << 30;
  const auto hasText = [&] {
    const Findings found(inputs);
    return std::ranges::find(found.diagnosis.causes, Limit::kText, &Cause::limit) !=
           found.diagnosis.causes.end();
  };
  inputs.trace = tinyTrace(alwaysTheSame);
  CHECK(hasText());
  inputs.trace = tinyTrace(roundRobin);
  CHECK_FALSE(hasText());
}

TEST_CASE("first reads into a cache for everything are the start, not another text") {
  ReportInputs inputs = coldInputs(3);
  inputs.trace = tinyTrace(roundRobin);
  const Findings found(inputs);
  CHECK(found.first() == Limit::kStart);
  CHECK(size_t(std::ranges::count(found.diagnosis.causes[0].sentence, ' ')) < kMostWords);
  // Each layer's prompt token uses two of four experts, so that two more are read while decoding.
  double first = 0;
  for (uint32_t layer = 0; layer < 2; ++layer)
    for (uint32_t expert : {layer + 2, layer + 3})
      first += static_cast<double>(inputs.artifact.moeLayers[layer].experts[expert % 4].bytes);
  CHECK(found.diagnosis.firstBytes == doctest::Approx(first / 3));
  REQUIRE(found.diagnosis.text);
  CHECK(found.diagnosis.text->tokens == 3);
  CHECK(found.diagnosis.text->parts > 1);
  CHECK(found.diagnosis.text->calibration.hitRate ==
        doctest::Approx(found.diagnosis.text->run.hitRate));
}

TEST_CASE("a cold run whose text needs experts that calibration text does not is another text") {
  ReportInputs inputs = coldInputs(3);
  inputs.trace = tinyTrace(alwaysTheSame);
  CHECK(Findings(inputs).first() == Limit::kText);
}

TEST_CASE("a calibration text shorter than the run is compared with the run's beginning") {
  ReportInputs inputs = coldInputs(60);
  inputs.trace = tinyTrace(roundRobin);
  const Findings found(inputs);
  REQUIRE(found.diagnosis.text);
  CHECK(found.diagnosis.text->tokens == inputs.trace->tokens() - 1);
  CHECK(found.diagnosis.text->parts == 1);
  CHECK(found.diagnosis.text->run.hitRate ==
        doctest::Approx(found.diagnosis.text->calibration.hitRate));
}

TEST_CASE("nothing is advised where nothing helps") {
  TinyTimes times;
  times.waitNs = 0;
  ReportInputs inputs = tinyInputs(times, alwaysTheSame);
  const Findings found(inputs);
  for (const Advice &advice : found.whatIf.advice)
    CHECK(advice.change.starts_with("fewer bits"));
}

TEST_CASE("the knee is the smallest budget near the best speed") {
  const ReportInputs inputs = tinyInputs({}, roundRobin);
  const Findings found(inputs);
  const std::vector<BudgetPoint> &budgets = found.whatIf.budgets;
  double best = 0;
  for (const BudgetPoint &point : budgets)
    best = std::max(best, point.predicted.tokensPerSecond);
  CHECK(budgets[found.whatIf.knee].predicted.tokensPerSecond >= kNearBest * best);
  for (size_t i = 0; i < found.whatIf.knee; ++i)
    CHECK(budgets[i].predicted.tokensPerSecond < kNearBest * best);
}
