#include "compiler/calibrate/LayerCollector.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/policy/Routing.h"

#include <algorithm>
#include <cmath>

using namespace moert;

namespace moec {

LayerCollector::LayerCollector(ProfileWriter &profile) : writer(profile) {
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
  return perToken * info.tokens.size();
}

// Summed in doubles, in ascending order: the same bits on every machine.
static float lengthOf(std::span<const float> row) {
  double sum = 0;
  for (float value : row)
    sum += static_cast<double>(value) * static_cast<double>(value);
  return static_cast<float>(std::sqrt(sum));
}

Status LayerCollector::append(ExpertCandidates &candidates, LayerRows<float> scores,
                              const Router &router, uint32_t layer) {
  const RoutingRule best = {candidates.perToken, false, 1};
  std::span<int32_t> experts = std::span(bestExperts).first(candidates.perToken);
  std::span<float> weights = std::span(bestWeights).first(candidates.perToken);
  for (uint64_t row = 0; row < rows; ++row) {
    router.computeLikelihoods(scores.row(row).data(), likelihoods.data());
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
    MOERT_RETURN_IF_ERROR(writer.appendRows(routed.input.row(row)));
    trace->inputNorms.push_back(lengthOf(routed.input.row(row)));
    auto experts = routed.experts.row(row);
    auto weights = routed.weights.row(row);
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

Status LayerCollector::endSegment() {
  if (trace)
    MOERT_RETURN_IF_ERROR(writer.finishLayer(*trace));
  trace.reset();
  return {};
}

} // namespace moec
