#include "compiler/plan/PlanInputs.h"

#include "compiler/plan/StepCosts.h"
#include "runtime/experts/PathTable.h"
#include "tests/unit/format/TinyArtifact.h"
#include "tests/unit/planning/TinyPlanning.h"

#include <cmath>
#include <cstring>
#include <doctest/doctest.h>

using namespace moec;
using moert::Artifact;

namespace {

// Products of 4 projections, the router and the gate of the shared expert.
constexpr double kProjections = 32 * 32 + 2 * 16 * 32 + 32 * 32, kRouter = 2 * 4 * 32;
constexpr double kSharedGate = 2 * 32, kHead = 48 * 32, kExpert = 3 * 24 * 32;

} // namespace

TEST_CASE("a layer's cost includes the products and the attention before its experts") {
  const StepCosts costs = stepCostsOf(factsOf(tinyArtifact()), plainDevice(), {1, 4});
  REQUIRE(costs.layers.size() == 2);
  // Positions, key and value, bytes; for 2 query heads, and once for the one KV head.
  const double attention = 4 * (16 + 16) * 4 * (2 * 1 + 1 * 10);
  CHECK(costs.layers[0].before.firstNs == doctest::Approx(kProjections + attention + kRouter));
  CHECK(costs.layers[1].before.firstNs ==
        doctest::Approx(kSharedGate + kProjections + attention + kRouter));
  CHECK(costs.after.firstNs == doctest::Approx(kSharedGate + kHead));
  CHECK(costs.layers[0].predictNs[0] == doctest::Approx(kRouter));
}

TEST_CASE("a product per head costs as much as a product with its matrix") {
  Artifact artifact = tinyArtifact();
  const double alone =
      stepCostsOf(factsOf(artifact), plainDevice(), {1, 4}).layers[0].before.firstNs;
  std::vector<moert::Instruction> &decode = artifact.programs[0].instructions;
  decode.insert(decode.begin(), moert::LinearHeadsInstruction{0, 0, TinyWeights::kRouter, 1, 0});
  CHECK(stepCostsOf(factsOf(artifact), plainDevice(), {1, 4}).layers[0].before.firstNs ==
        doctest::Approx(alone + kRouter));
}

TEST_CASE("attention over values in keys has values as wide as a head's result") {
  Artifact artifact = tinyArtifact();
  artifact.kvSlots[0] = {1, 32, 0};
  for (moert::Program &program : artifact.programs)
    firstOf<moert::AttendInstruction>(program).heads = 1;
  const double attention = 4 * (32 + 32) * 4 * (1 * 1 + 1 * 10);
  CHECK(stepCostsOf(factsOf(artifact), plainDevice(), {1, 4}).layers[0].before.firstNs ==
        doctest::Approx(kProjections + attention + kRouter));
}

TEST_CASE("gates of several layers are one product, divided among threads if it is large enough") {
  Artifact artifact = tinyArtifact();
  for (moert::ResidentWeight &weight : artifact.residents)
    if (weight.name == "router")
      weight.shape = {32, 2048}; // Two panels: too little work for a second thread.
  DeviceProfile device = plainDevice();
  device.cores = 2; // Two threads compute at the rate of one, and a dispatch takes 1000 ns.
  const double alone = 2.0 * 32 * 2048;
  const std::array<double, moert::kMostAhead> each =
      stepCostsOf(factsOf(artifact), device, {2, 4}).layers[0].predictNs;
  CHECK(each[0] == doctest::Approx(alone));
  CHECK(each[1] == doctest::Approx(alone + 1000.0 / 2));
  CHECK(each[2] == doctest::Approx(alone + 1000.0 / 3));
}

TEST_CASE("a gate costs as much as its router, whatever is computed together with the router") {
  Artifact artifact = tinyArtifact();
  for (moert::Program &program : artifact.programs)
    for (size_t i = 0; i + 1 < program.instructions.size(); ++i) {
      const auto *route = std::get_if<moert::RouteInstruction>(&program.instructions[i + 1]);
      const auto *linear = std::get_if<moert::LinearInstruction>(&program.instructions[i]);
      if (!route || !linear)
        continue;
      moert::LinearInstruction beside = *linear;
      beside.dst = route->weights;
      beside.role = moert::ProductRole::kDense;
      beside.joined = true;
      program.instructions.insert(program.instructions.begin() + ptrdiff_t(i) + 1, beside);
      i += 2;
    }
  for (const StepCosts::Layer &layer : stepCostsOf(factsOf(artifact), plainDevice(), {1, 4}).layers)
    CHECK(layer.predictNs[0] == doctest::Approx(kRouter));
}

TEST_CASE(
    "gates cost nothing if no product computes the router's scores, which the format allows") {
  Artifact artifact = tinyArtifact();
  for (moert::Program &program : artifact.programs)
    std::erase_if(program.instructions, [](const moert::Instruction &instruction) {
      return std::holds_alternative<moert::LinearInstruction>(instruction);
    });
  for (const StepCosts::Layer &layer : stepCostsOf(factsOf(artifact), plainDevice(), {1, 4}).layers)
    CHECK(layer.predictNs == std::array<double, moert::kMostAhead>{});
}

TEST_CASE("attention with a window costs no more than its window") {
  // The second layer's window is 8.
  const StepCosts near = stepCostsOf(factsOf(tinyArtifact()), plainDevice(), {1, 8});
  const StepCosts far = stepCostsOf(factsOf(tinyArtifact()), plainDevice(), {1, 100});
  CHECK(far.layers[0].before.firstNs > near.layers[0].before.firstNs);
  CHECK(far.layers[1].before.firstNs == near.layers[1].before.firstNs);
}

TEST_CASE("contention of reading and computing comes from the device") {
  const StepCosts costs = stepCostsOf(factsOf(tinyArtifact()), plainDevice(), {1, 4});
  CHECK(costs.contention.readingWhileComputing == 0.5);
  CHECK(costs.contention.computingWhileReading == 0.8);
  CHECK(costs.contention.submitNsPerByte == 1);
  CHECK(costs.contention.wakeNs == 700);
  CHECK(costs.origin == Origin::kDerived);
  DeviceProfile unknown = plainDevice();
  unknown.fractionWhileReading = {1, Origin::kAssumed};
  CHECK(stepCostsOf(factsOf(tinyArtifact()), unknown, {1, 4}).origin == Origin::kAssumed);
}

TEST_CASE("instructions between a router and its experts overlap the reads") {
  Artifact artifact = tinyArtifact();
  std::vector<moert::Instruction> &decode = artifact.programs[0].instructions;
  auto experts = std::find_if(decode.begin(), decode.end(), [](const moert::Instruction &each) {
    return std::holds_alternative<moert::ExpertsInstruction>(each);
  });
  auto linear = std::find_if(decode.begin(), decode.end(), [](const moert::Instruction &each) {
    return std::holds_alternative<moert::LinearInstruction>(each);
  });
  REQUIRE(linear < experts);
  const StepCosts costs = stepCostsOf(factsOf(artifact), plainDevice(), {1, 4});
  CHECK(costs.layers[0].beside.firstNs == 0);
  std::rotate(linear, linear + 1, experts); // The first projection, moved after the router.
  const StepCosts moved = stepCostsOf(factsOf(artifact), plainDevice(), {1, 4});
  CHECK(moved.layers[0].beside.firstNs == doctest::Approx(32 * 32));
  CHECK(moved.layers[0].before.firstNs ==
        doctest::Approx(costs.layers[0].before.firstNs - 32 * 32));
}

TEST_CASE("an expert costs its three matrices, by the rates of wider weights where it has none") {
  const StepCosts costs = stepCostsOf(factsOf(tinyArtifact()), plainDevice(), {1, 1});
  CHECK(costs.layers[0].expert.firstNs == doctest::Approx(kExpert));
  CHECK(costs.layers[0].expert.furtherNs == doctest::Approx(kExpert * 3.1 / 31));
  CHECK(costs.origin == Origin::kDerived);
}

TEST_CASE("an expert's checksums cost a read of its slices' payloads") {
  const Artifact artifact = tinyArtifact();
  double bytes = 0;
  size_t slices = 0; // 2 or 3 per expert.
  for (const moert::Expert &expert : artifact.moeLayers[1].experts)
    for (const moert::Slice &slice : expert.slices) {
      bytes += static_cast<double>(slice.payloadBytes);
      ++slices;
    }
  const StepCosts costs = stepCostsOf(factsOf(artifact), plainDevice(), {1, 1});
  CHECK(costs.layers[1].checks.of(1) == doctest::Approx(bytes / 4 * 0.5));
  CHECK(costs.layers[1].checks.slices ==
        static_cast<uint32_t>(std::lround(static_cast<double>(slices) / 4)));
  DeviceProfile device = plainDevice();
  device.cores = 2;
  device.memoryBytesPerSecond.allThreads = {3e9, Origin::kMeasured};
  const CheckCost two = stepCostsOf(factsOf(artifact), device, {2, 1}).layers[1].checks;
  CHECK(two.of(2) == doctest::Approx(bytes / 2 / 3 + 1000));
}

TEST_CASE("a checksum costs one thread's time on any number of threads") {
  const CheckCost one{{6}}, two{{6, 8}, 1, 1000};
  CHECK(one.of(3) == 18);
  CHECK(two.of(1) == 6);
  CHECK(two.of(2) == 8 + 1000);
  CHECK(two.of(3) == 2 * 8 + 1000);
}

TEST_CASE("small operations are not divided among threads") {
  DeviceProfile device = plainDevice();
  device.cores = 2;
  const StepCosts two = stepCostsOf(factsOf(tinyArtifact()), device, {2, 4});
  const StepCosts one = stepCostsOf(factsOf(tinyArtifact()), device, {1, 4});
  // All matrices are small; only the attention is divided.
  CHECK(two.layers[0].before.firstNs == doctest::Approx(one.layers[0].before.firstNs + 1000));
  CHECK(two.layers[0].expert.firstNs == doctest::Approx(one.layers[0].expert.firstNs));
}

TEST_CASE("nested slices are named by their bits") {
  Artifact artifact = tinyArtifact();
  const auto namesOf = [&](size_t layer, size_t expert) {
    return productWeightsOf(artifact.moeLayers[layer].experts[expert]);
  };
  const auto all = [](std::string_view name) { return ExpertProducts{name, name}; };
  CHECK(namesOf(0, 0) == all("int4"));
  CHECK(namesOf(1, 0) == all("int2+2+4"));
  CHECK(namesOf(1, 1) == all("int2+1"));
  CHECK(namesOf(1, 3) == all("int2"));
  moert::ExpertFormat &first = artifact.moeLayers[1].experts[1].slices[0].format;
  first.gateUp.kind = first.down.kind = moert::WeightKind::kNl2;
  CHECK(namesOf(1, 1) == all("nl2+1"));
  artifact = tinyMxfp4Artifact();
  CHECK(namesOf(0, 0) == all("mxfp4"));
}

TEST_CASE("down costs what products of its own width cost, in all slices and in the first ones") {
  Artifact artifact = tinyArtifact();
  using enum moert::WeightKind;
  for (moert::Expert &expert : artifact.moeLayers[0].experts) {
    const moert::WeightFormat eight{kInt8, 32, 32}, two{kInt2, 32, 32};
    const moert::WeightFormat none{kInt0, 32, 32, false, true}, more{kInt2, 32, 32, false, true};
    expert.slices.resize(2, expert.slices.front());
    expert.slices[0].format = {eight, two};
    expert.slices[1].format = {none, more};
  }
  CHECK(productWeightsOf(artifact.moeLayers[0].experts[0]) == ExpertProducts{"int8", "int2+2"});
  DeviceProfile device = plainDevice();
  for (auto [weights, ns] : {std::pair("int2", 3.0), std::pair("int2+2", 5.0)})
    device.products.push_back(
        {weights, 1, 1, {1e9, Origin::kMeasured}, {1e9 / ns, Origin::kMeasured}});
  const StepCosts::Layer layer = stepCostsOf(factsOf(artifact), device, {1, 1}).layers[0];
  constexpr double kMatrix = kExpert / 3; // A nanosecond for each weight of gate and up.
  CHECK(layer.expert.firstNs == doctest::Approx(2 * kMatrix + 5 * kMatrix));
  REQUIRE(layer.firstSlices.size() == 1);
  CHECK(layer.firstSlices[0].firstNs == doctest::Approx(2 * kMatrix + 3 * kMatrix));
}

TEST_CASE("a slice of several planes is multiplied whole") {
  Artifact artifact = tinyArtifact();
  using enum moert::WeightKind;
  std::vector<moert::Expert> &experts = artifact.moeLayers[0].experts;
  for (moert::Expert &expert : experts)
    expert.slices.front().format = moert::WeightFormat{kInt6, 32, 32};
  // With one expert of two slices there is a cost of the first slice alone.
  experts[0].slices.resize(2, experts[0].slices.front());
  experts[0].slices[0].format = moert::WeightFormat{kInt2, 32, 32};
  experts[0].slices[1].format = moert::WeightFormat{kInt2, 32, 32, false, true};
  CHECK(productWeightsOf(experts[1]) == ExpertProducts{"int2+2+2", "int2+2+2"});
  DeviceProfile device = plainDevice();
  for (auto [weights, ns] : {std::pair("int2", 3.0), std::pair("int2+2+2", 7.0)})
    device.products.push_back(
        {weights, 1, 1, {1e9, Origin::kMeasured}, {1e9 / ns, Origin::kMeasured}});
  const StepCosts::Layer layer = stepCostsOf(factsOf(artifact), device, {1, 1}).layers[0];
  REQUIRE(experts.size() == 4);
  REQUIRE(layer.firstSlices.size() == 1);
  CHECK(layer.firstSlices[0].firstNs == doctest::Approx(kExpert * (3 + 3 * 7) / 4));
}

TEST_CASE("the facts of records with low copies are those of full precision, and the copy's") {
  const Artifact artifact = tinyCopiesArtifact();
  const ModelFacts facts = factsOf(artifact);
  const std::vector<moert::Expert> &experts = artifact.moeLayers[1].experts;
  CHECK(facts.recordBytes[1][0] == experts[0].slices[1].bytes);
  CHECK(facts.recordBytes[1][3] == experts[3].bytes);
  CHECK(facts.sliceEnds[1][0] == std::vector<uint64_t>{16384, 16384 + experts[0].slices[1].bytes});
  CHECK(facts.lowCopySlices[1] == std::vector<uint16_t>{1, 1, 2, 0});
  for (const StepOperation &operation : facts.decode)
    if (const auto *step = std::get_if<ExpertsStep>(&operation); step && step->moeLayer == 1) {
      CHECK(step->experts[0].weights.gateUp == "int8");
      CHECK(step->experts[0].lowCopyWeights.gateUp == "int2");
      CHECK(step->experts[0].payloadBytes == experts[0].slices[1].payloadBytes);
      CHECK(step->experts[1].weights.gateUp == "nl2+1");
      CHECK(step->experts[1].slices == 2);
      CHECK(step->experts[2].lowCopyWeights.gateUp == "int2+2");
      CHECK(step->experts[3].lowCopySlices == 0);
    }
  // 1 and 2 slices, of which expert 2 has both in its low copy.
  CHECK(stepCostsOf(facts, plainDevice(), {1, 4}).layers[1].firstSlices.size() == 2);
}

TEST_CASE("a problem has the trace's layer passes, the records and the gates' predictions") {
  const Artifact artifact = tinyArtifact();
  const ModelFacts facts = factsOf(artifact);
  const KnownRouting routing = routingOf(smallTrace(), {}, facts).value();
  const PlanInputs inputs(facts, routing, plainDevice());
  const PlanProblem problem = inputs.problem(9);
  CHECK(problem.poolPages == 9);
  CHECK(problem.pageBytes == 4096);
  // Two windows with a prompt of one token and one decoded token each; two layers. Plans are
  // decided on the first window and forecast on the second.
  REQUIRE(problem.trace->passes.size() == 4);
  CHECK(check(problem).message() == "");
  const PlanProblem whole = inputs.forecastProblem(9);
  REQUIRE(whole.trace->passes.size() == 8);
  CHECK(whole.trace->passes[4].beginsPrompt);
  CHECK(routing.decidingSteps() == 2);
  CHECK(problem.recordBytes[1][0] == artifact.moeLayers[1].experts[0].bytes);
  CHECK(problem.topK[0] == 2);
  REQUIRE(problem.predictions.size() == 1);
  const LayerPredictions &gate = problem.predictions[0];
  CHECK(gate.predictor == moert::Predictor::kGate);
  CHECK(gate.layer == 1);
  CHECK(gate.ahead == 1);
  REQUIRE(gate.candidates.size() == 8);
  CHECK(gate.candidates[0].expert == 3);
  CHECK(gate.candidates[0].probability == moert::kFixedPointOne);
  CHECK(gate.candidates[3].probability == moert::kFixedPointOne / 5);
}

TEST_CASE("a problem has the slices of records and, where the trace has them, the scores") {
  const Artifact artifact = tinyArtifact();
  const ModelFacts facts = factsOf(artifact);
  REQUIRE(facts.sliceEnds.size() == 2);
  const moert::Expert &expert = artifact.moeLayers[1].experts[0];
  REQUIRE(facts.sliceEnds[1][0].size() == expert.slices.size());
  CHECK(facts.sliceEnds[1][0].back() == expert.bytes);
  PlanTrace trace = smallTrace();
  CHECK(routingOf(trace, {}, facts).value().scores.empty());
  for (TracedLayer &layer : trace.layers) {
    layer.weights = {0.75, 0.25, 0.5, 0.5, 1, 0, 0.625, 0.375};
    layer.candidates = 1;
    layer.likeliest = {0, 2, 0, 1};
    layer.likelihoods = {0.5, 0.25, 0.75, 1};
  }
  const KnownRouting routing = routingOf(trace, {}, facts).value();
  const PlanInputs inputs(facts, routing, plainDevice());
  const PlanProblem problem = inputs.problem(9);
  CHECK(check(problem).message() == "");
  REQUIRE(problem.scores.size() == 2);
  CHECK(problem.scores[1].chosen == trace.layers[1].chosen);
  CHECK(problem.scores[0].weights == trace.layers[0].weights);
  CHECK(problem.scores[0].likelihoods == trace.layers[0].likelihoods);
}

TEST_CASE("a trace without tokens for a forecast is refused, with its size") {
  PlanTrace trace = smallTrace();
  trace.windows = 1;
  for (TracedLayer &layer : trace.layers) {
    layer.chosen.resize(4);
    for (TracedPredictions &ahead : layer.ahead) {
      ahead.experts.resize(4);
      ahead.probabilities.resize(4);
    }
  }
  const auto routing = routingOf(trace, {}, factsOf(tinyArtifact()));
  REQUIRE(!routing.isOk());
  CHECK(routing.status().message().find("the trace has 1 window of 2 tokens, expected more") == 0);
}

TEST_CASE("an activation-path table predicts from the experts of the two previous layers") {
  // In the last layer, expert 2 follows expert 0 of the previous layer, and expert 1 follows expert
  // 3 of the first one.
  const uint32_t numbers[] = {moert::PathTableHeader::kMagic, 1, 3, 0, 4, 4, 4};
  std::vector<std::byte> paths(sizeof numbers + 3 * 16);
  std::memcpy(paths.data(), numbers, sizeof numbers);
  paths[sizeof numbers + 16 + 2] = std::byte(200);
  paths[sizeof numbers + 32 + 3 * 4 + 1] = std::byte(50);
  ModelFacts facts;
  facts.isPredicted = {{}, {true}, {true}};
  PlanTrace trace = smallTrace();
  trace.layers.insert(trace.layers.begin(), trace.layers[1]); // Begins with 3, 2.
  const auto routing = routingOf(trace, paths, facts);
  REQUIRE(routing.isOk());
  const LayerPredictions &predicted = routing->predictions.back();
  CHECK(predicted.predictor == moert::Predictor::kPaths);
  CHECK(predicted.layer == 2);
  REQUIRE(predicted.candidates.size() == 4 * predicted.perToken);
  CHECK(predicted.candidates[0].expert == 2);
  CHECK(predicted.candidates[0].probability == moert::kFixedPointOne / 5 * 4);
  CHECK(predicted.candidates[1].expert == 1);
  // Unknown candidates are not invented.
  CHECK(predicted.candidates[2].expert == 1);
  CHECK_FALSE(routingOf(trace, std::span(paths).first(30), facts).isOk());
}

TEST_CASE("there are no predictions without a predict instruction in the programs") {
  Artifact artifact = tinyArtifact();
  CHECK(factsOf(artifact).isPredicted[1][0]);
  CHECK_FALSE(factsOf(artifact).isPredicted[1][1]);
  for (moert::Program &program : artifact.programs)
    std::erase_if(program.instructions, [](const moert::Instruction &instruction) {
      return std::holds_alternative<moert::PredictInstruction>(instruction);
    });
  CHECK(routingOf(smallTrace(), {}, factsOf(artifact)).value().predictions.empty());
}
