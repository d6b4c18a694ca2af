#include "compiler/calibrate/LayerCollector.h"

#include "compiler/calibrate/BufferUses.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/policy/Routing.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

using namespace moert;

namespace moec {

// The weight of a product whose matrix may be quantized; kNone for others.
static int32_t productOf(const Artifact &artifact, const Instruction &instruction) {
  int32_t weight = kNone;
  if (const auto *linear = std::get_if<LinearInstruction>(&instruction))
    weight = linear->role == ProductRole::kRouter ? kNone : linear->weight;
  else if (const auto *head = std::get_if<HeadInstruction>(&instruction))
    weight = head->weight;
  return weight != kNone && artifact.residents[size_t(weight)].shape.rows >= kPanelRows ? weight
                                                                                        : kNone;
}

std::vector<CalibrationInfo::ResidentInput> residentInputsOf(const Artifact &artifact,
                                                             const Program &program) {
  std::vector<CalibrationInfo::ResidentInput> inputs;
  std::map<int32_t, size_t> readBefore; // Buffers, since they were written last.
  std::set<int32_t> known;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction &instruction = program.instructions[i];
    const int32_t weight = productOf(artifact, instruction);
    const bool isHead = std::holds_alternative<HeadInstruction>(instruction);
    if (weight != kNone && (isHead || program.layers[i] != kNone) && known.insert(weight).second) {
      const ResidentWeight &matrix = artifact.residents[size_t(weight)];
      const auto [found, isNew] = readBefore.emplace(usesOf(instruction).reads[0], inputs.size());
      if (isNew)
        inputs.push_back(
            {isHead ? kAfterLayers : uint32_t(program.layers[i]), matrix.shape.cols, {}});
      inputs[found->second].weights.push_back(matrix.name);
    }
    for (int32_t written : usesOf(instruction).writes)
      readBefore.erase(written);
  }
  return inputs;
}

LayerCollector::LayerCollector(ProfileWriter &profile, std::span<const ResidentWeight> residents)
    : writer(profile) {
  std::map<std::string, int32_t> indices;
  for (size_t i = 0; i < residents.size(); ++i)
    indices.emplace(residents[i].name, int32_t(i));
  const auto &inputs = writer.header().info.residentInputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    inputOf.emplace(indices.at(inputs[i].weights.front()), i);
  uint32_t widest = 0, most = 0;
  for (const CalibrationInfo::MoeLayer &layer : writer.header().info.moeLayers) {
    widest = std::max(widest, layer.experts);
    most = std::max(most, candidatesOf(layer.experts, layer.topK));
  }
  likelihoods.resize(roundUp(widest, 16)); // The kernels write whole vectors.
  bestExperts.resize(most);
  bestWeights.resize(most);
}

uint64_t LayerCollector::memoryBytes(const CalibrationInfo &info) {
  uint64_t perToken = 0;
  for (size_t i = 0; i < info.moeLayers.size(); ++i) {
    uint64_t candidates = 0;
    for (size_t later = i; later <= i + kPredictionDepths && later < info.moeLayers.size(); ++later)
      candidates += candidatesOf(info.moeLayers[later].experts, info.moeLayers[later].topK);
    perToken = std::max(perToken, (info.moeLayers[i].topK + candidates) * 6 + sizeof(float));
  }
  std::map<uint32_t, uint64_t> moments; // By layer.
  uint64_t most = 0;
  for (const CalibrationInfo::ResidentInput &input : info.residentInputs)
    most = std::max(most, moments[input.layer] += MomentSums::memoryBytes(input.cols));
  return perToken * info.tokens.size() + most;
}

void LayerCollector::beginBatch(uint64_t tokens) {
  firstToken += rows;
  rows = tokens;
}

// Summed in doubles, in ascending order: the same bits on every machine.
static float lengthOf(std::span<const float> row) {
  double sum = 0;
  for (float value : row)
    sum += static_cast<double>(value) * static_cast<double>(value);
  return static_cast<float>(std::sqrt(sum));
}

template <typename T>
std::span<const T> LayerCollector::rowAt(LayerRows<T> rowsOf, uint64_t token) const {
  const uint64_t kept = writer.header().info.windowTokens, window = token / kept;
  const uint64_t each = std::max<uint64_t>(rowsOf.rowsPerWindow / kept, 1);
  const uint64_t shift = (firstToken / kept + window) % each;
  return rowsOf.row(window * rowsOf.rowsPerWindow + token % kept * each + shift);
}

Status LayerCollector::append(ExpertCandidates &candidates, LayerRows<float> scores,
                              const Router &router, uint32_t layer) {
  const RoutingRule best = {candidates.perToken, false, 1};
  std::span<int32_t> experts = std::span(bestExperts).first(candidates.perToken);
  std::span<float> weights = std::span(bestWeights).first(candidates.perToken);
  for (uint64_t row = 0; row < rows; ++row) {
    router.computeLikelihoods(rowAt(scores, row).data(), likelihoods.data());
    auto all = std::span<const float>(likelihoods).first(scores.width);
    if (!std::all_of(all.begin(), all.end(), [](float p) { return p >= 0 && p <= 1; }))
      return invalidInput("the router of layer ", layer,
                          " has an infinite or NaN output; the checkpoint is broken");
    chooseExperts(all, best, experts, weights);
    candidates.experts.insert(candidates.experts.end(), experts.begin(), experts.end());
    candidates.probabilities.insert(candidates.probabilities.end(), weights.begin(), weights.end());
  }
  return {};
}

// With capacity for all tokens.
static ExpertCandidates emptyCandidates(const CalibrationInfo::MoeLayer &layer, uint64_t tokens) {
  ExpertCandidates candidates;
  candidates.perToken = candidatesOf(layer.experts, layer.topK);
  candidates.experts.reserve(tokens * candidates.perToken);
  candidates.probabilities.reserve(tokens * candidates.perToken);
  return candidates;
}

Status LayerCollector::onRouted(const Routed &routed) {
  const CalibrationInfo &info = writer.header().info;
  const CalibrationInfo::MoeLayer &layer = info.moeLayers[routed.moeLayer];
  if (!trace) {
    trace.emplace();
    trace->topK = layer.topK;
    trace->inputNorms.reserve(info.tokens.size());
    trace->experts.reserve(info.tokens.size() * layer.topK);
    trace->weights.reserve(info.tokens.size() * layer.topK);
    trace->candidates = emptyCandidates(layer, info.tokens.size());
  }
  for (uint64_t row = 0; row < rows; ++row) {
    const std::span<const float> input = rowAt(routed.input, row);
    MOERT_RETURN_IF_ERROR(writer.appendRows(input));
    trace->inputNorms.push_back(lengthOf(input));
    auto experts = rowAt(routed.experts, row);
    auto weights = rowAt(routed.weights, row);
    trace->experts.insert(trace->experts.end(), experts.begin(), experts.end());
    trace->weights.insert(trace->weights.end(), weights.begin(), weights.end());
  }
  return append(trace->candidates, routed.scores, *routed.router, layer.layer);
}

Status LayerCollector::onLaterRouter(const Routed &routed, uint32_t ahead, LayerRows<float> scores,
                                     const Router &router) {
  const CalibrationInfo &info = writer.header().info;
  const CalibrationInfo::MoeLayer &layer = info.moeLayers[routed.moeLayer + ahead];
  if (trace->predictions.size() < ahead) {
    trace->predictions.resize(ahead);
    trace->predictions[ahead - 1] = emptyCandidates(layer, info.tokens.size());
  }
  return append(trace->predictions[ahead - 1], scores, router, layer.layer);
}

// Window after window, so that the sums do not depend on the windows of a batch.
Status LayerCollector::onProduct(int32_t weight, LayerRows<float> input) {
  const auto found = inputOf.find(weight);
  if (found == inputOf.end())
    return {};
  const CalibrationInfo &info = writer.header().info;
  MomentSums &sum = sums.try_emplace(found->second, input.width, bestKernels()).first->second;
  const uint64_t step = residentMomentStep(info.tokens.size());
  const uint64_t kept = std::min(info.windowTokens, input.rowsPerWindow);
  const uint64_t stride = input.stride * step * (input.rowsPerWindow / kept);
  for (uint64_t window = 0; window < rows; window += info.windowTokens) {
    const uint64_t first = roundUp(firstToken + window, step) - (firstToken + window);
    if (first < kept)
      sum.add(rowAt(input, window + first).data(), stride, uint32_t(divideUp(kept - first, step)),
              {});
  }
  return {};
}

Status LayerCollector::endSegment() {
  if (trace)
    MOERT_RETURN_IF_ERROR(writer.finishLayer(*trace));
  trace.reset();
  for (auto &[input, sum] : sums)
    MOERT_RETURN_IF_ERROR(writer.appendMoments(std::move(sum).mean()));
  sums.clear();
  firstToken = rows = 0;
  return {};
}

} // namespace moec
