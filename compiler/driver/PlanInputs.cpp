#include "compiler/driver/PlanInputs.h"

#include "compiler/plan/DeviceTimes.h"

#include <algorithm>

using namespace moert;

namespace moec {

static Result<RoutingTrace> routesOf(const PlanTrace &trace) {
  std::vector<LayerRoutes> routes;
  for (const TracedLayer &layer : trace.layers)
    routes.push_back({layer.experts, layer.topK, layer.chosen});
  // A prompt of all but one token still leaves one to decode.
  const uint32_t prompt = std::min(kPlannedPromptTokens, trace.windowTokens - 1);
  return makeTrace(routes,
                   stepsOfWindows(trace.windows, trace.windowTokens, prompt, std::max(1u, prompt)));
}

static uint32_t shareOfByte(uint8_t share) {
  return static_cast<uint32_t>(uint64_t(share) * kWholeShare / 255);
}

bool canGuess(const Artifact &artifact, uint32_t moeLayer, uint32_t ahead) {
  for (const Program &program : artifact.programs)
    for (const Instruction &instruction : program.instructions)
      if (const auto *predict = std::get_if<PredictInstruction>(&instruction))
        if (predict->moeLayer == moeLayer && predict->ahead == ahead)
          return true;
  return false;
}

static void addGatePredictions(const Artifact &artifact, const PlanTrace &trace,
                               std::vector<LayerPredictions> &predictions) {
  for (uint32_t from = 0; from < trace.layers.size(); ++from)
    for (uint32_t d = 0; d < trace.layers[from].ahead.size(); ++d) {
      if (!canGuess(artifact, from + d + 1, d + 1))
        continue;
      const TracedPredictions &traced = trace.layers[from].ahead[d];
      LayerPredictions &gate = predictions.emplace_back();
      gate.predictor = Predictor::kGate;
      gate.ahead = d + 1;
      gate.layer = from + d + 1;
      gate.perToken = traced.perToken;
      for (size_t i = 0; i < traced.experts.size(); ++i)
        gate.candidates.push_back({traced.experts[i], shareOfByte(traced.shares[i])});
    }
}

Result<PlanInputs> PlanInputs::create(const Artifact &artifact, const PlanTrace &trace,
                                      std::span<const std::byte> /*paths*/,
                                      const DeviceProfile &device, const StepUse &use) {
  PlanInputs inputs;
  MOERT_ASSIGN_OR_RETURN(inputs.trace, routesOf(trace));
  addGatePredictions(artifact, trace, inputs.predictions);
  for (const MoeLayer &layer : artifact.moeLayers)
    inputs.recordBytes.push_back(recordBytesOf(layer));
  for (const TracedLayer &layer : trace.layers)
    inputs.topK.push_back(layer.topK);
  inputs.pageBytes = artifact.pageBytes;
  inputs.costs = stepCostsOf(artifact, device, use);
  inputs.reads = plannedReads(device);
  return inputs;
}

PlanProblem PlanInputs::problem(uint64_t poolPages) const {
  return {.trace = &trace,
          .predictions = predictions,
          .recordBytes = recordBytes,
          .topK = topK,
          .pageBytes = pageBytes,
          .poolPages = poolPages,
          .reads = &reads,
          .costs = &costs};
}

} // namespace moec
