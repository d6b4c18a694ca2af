// Applies the plan's miss rule to the choice of a router, before the experts are demanded.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>

namespace moert {

void MissScratch::resize(const Artifact &artifact, uint64_t rows) {
  uint64_t widestLayer = 0, topK = 0;
  for (const MoeLayer &layer : artifact.moeLayers) {
    widestLayer = std::max<uint64_t>(widestLayer, layer.experts.size());
    topK = std::max<uint64_t>(topK, layer.topK);
  }
  likelihoods.resize(roundUp(widestLayer, 16));
  for (std::vector<uint16_t> *perExpert : {&resident, &demanded, &wantedSlices})
    perExpert->resize(widestLayer);
  ranksTaken.resize(rows);
  experts.resize(topK);
  slices.resize(topK);
}

void Engine::Impl::beginMisses(uint32_t moeLayer) {
  const auto experts = static_cast<uint32_t>(moeLayers[moeLayer].records.size());
  for (uint32_t expert = 0; expert < experts; ++expert)
    misses.resident[expert] = cache->slicesCounted(moeLayer - firstCachedLayer, expert);
  std::fill_n(misses.demanded.begin(), experts, uint16_t(0));
  misses.lowered = misses.skipped = misses.substituted = 0;
}

void Engine::Impl::applyMissRule(const RouteInstruction &route, const Router &router,
                                 uint32_t row) {
  const MoeLayerTables &layer = moeLayers[route.moeLayer];
  const uint32_t topK = artifact->moeLayers[route.moeLayer].topK;
  const size_t count = layer.records.size();
  const std::span<int32_t> routedTo(buffer(route.experts).integers(row), topK);
  const std::span<float> weights(buffer(route.weights).floats(row), topK);
  if (missRule.action == MissAction::kSubstitute || missRule.action == MissAction::kMask)
    router.computeLikelihoods(buffer(route.scores).floats(row), misses.likelihoods.data());
  const MissInputs inputs = {routedTo,
                             weights,
                             {misses.likelihoods.data(), count},
                             layer.planned,
                             {misses.resident.data(), count}};
  TakenExperts taken = {{misses.experts.data(), topK}, {misses.slices.data(), topK}};
  decideMisses(missRule, inputs, taken);
  misses.lowered += taken.lowered;
  misses.skipped += taken.skipped;
  misses.substituted += taken.substituted;
  for (uint32_t i = 0; i < taken.count; ++i) {
    uint16_t &demanded = misses.demanded[static_cast<size_t>(taken.experts[i])];
    demanded = std::max(demanded, taken.slices[i]);
  }
  misses.ranksTaken[row] = taken.count;
  const auto experts = taken.experts.first(taken.count);
  if (!std::equal(experts.begin(), experts.end(), routedTo.begin(), routedTo.end())) {
    router.weigh(probabilities.data(), experts, weights);
    std::copy(experts.begin(), experts.end(), routedTo.begin());
  }
}

} // namespace moert
