// Applies the plan's miss rule to the choice of a router, before the experts are demanded.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/policy/InstantReads.h"

#include <algorithm>

namespace moert {

static uint64_t largestTopK(const Artifact &artifact) {
  uint64_t topK = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    topK = std::max<uint64_t>(topK, layer.topK);
  return topK;
}

uint64_t MissScratch::batchBytes(const Artifact &artifact, uint64_t rows) {
  return rows * (sizeof(uint32_t) + largestTopK(artifact) * sizeof(uint16_t));
}

void MissScratch::resize(const Artifact &artifact, uint64_t rows, bool decodesBatches) {
  uint64_t widestLayer = 0;
  for (const MoeLayer &layer : artifact.moeLayers)
    widestLayer = std::max<uint64_t>(widestLayer, layer.experts.size());
  const uint64_t topK = largestTopK(artifact);
  likelihoods.resize(roundUp(widestLayer, 16));
  for (std::vector<uint16_t> *perExpert : {&resident, &demanded, &wantedSlices})
    perExpert->resize(widestLayer);
  ranksTaken.resize(rows);
  experts.resize(topK);
  slices.resize(topK);
  if (decodesBatches)
    rankSlices.resize(rows * topK);
}

void Engine::Impl::beginMisses(uint32_t moeLayer) {
  const auto experts = static_cast<uint32_t>(moeLayers[moeLayer].records.size());
  if (!decodedCache)
    countResident(moeLayer, cache->decisions());
  std::fill_n(misses.demanded.begin(), experts, uint16_t(0));
  misses.lowered = misses.skipped = misses.substituted = 0;
  misses.rowCounts = {};
}

void Engine::Impl::countResident(uint32_t moeLayer, const CacheMachine &machine) {
  const uint32_t firstId = machine.state().idOf(moeLayer - firstCachedLayer, 0);
  for (uint32_t expert = 0; expert < moeLayers[moeLayer].records.size(); ++expert)
    misses.resident[expert] = machine.slicesCounted(firstId + expert);
}

void Engine::Impl::decodeRow(uint32_t moeLayer, uint32_t row, uint32_t topK,
                             const TakenExperts &taken) {
  misses.rowWanted.clear();
  for (uint32_t i = 0; i < taken.count; ++i)
    misses.rowWanted.push_back(static_cast<uint32_t>(taken.experts[i]));
  // As a step of one token orders them.
  std::sort(misses.rowWanted.begin(), misses.rowWanted.end());
  misses.rowSlices.resize(taken.count);
  for (uint32_t i = 0; i < taken.count; ++i) {
    const auto place = std::lower_bound(misses.rowWanted.begin(), misses.rowWanted.end(),
                                        static_cast<uint32_t>(taken.experts[i]));
    misses.rowSlices[static_cast<size_t>(place - misses.rowWanted.begin())] = taken.slices[i];
    misses.rankSlices[uint64_t(row) * topK + i] = taken.slices[i];
  }
  executeInstantly(*decodedCache, moeLayer - firstCachedLayer,
                   {misses.rowWanted, {}, 1, misses.rowSlices});
  misses.rowCounts += decodedCache->takeCounts();
}

void Engine::Impl::applyMissRule(const RouteInstruction &route, const Router &router,
                                 uint32_t row) {
  const MoeLayerTables &layer = moeLayers[route.moeLayer];
  const uint32_t topK = artifact->moeLayers[route.moeLayer].topK;
  const size_t count = layer.records.size();
  if (decodedCache)
    countResident(route.moeLayer, *decodedCache);
  const std::span<int32_t> routedTo(buffer(route.experts).integers(row), topK);
  const std::span<float> weights(buffer(route.weights).floats(row), topK);
  const bool usesLikelihoods =
      missRule.action == MissAction::kSubstitute || missRule.action == MissAction::kMask;
  if (usesLikelihoods)
    router.computeLikelihoods(buffer(route.scores).floats(row), misses.likelihoods.data());
  const MissInputs inputs = {routedTo,
                             weights,
                             {misses.likelihoods.data(), usesLikelihoods ? count : 0},
                             layer.planned,
                             {misses.resident.data(), count}};
  TakenExperts taken = {{misses.experts.data(), topK}, {misses.slices.data(), topK}};
  observer->onMissRule(route.moeLayer, batch[row].position, inputs);
  decideMisses(missRule, inputs, taken);
  misses.lowered += taken.lowered;
  misses.skipped += taken.skipped;
  misses.substituted += taken.substituted;
  for (uint32_t i = 0; i < taken.count; ++i) {
    uint16_t &demanded = misses.demanded[static_cast<size_t>(taken.experts[i])];
    demanded = std::max(demanded, taken.slices[i]);
  }
  misses.ranksTaken[row] = taken.count;
  if (decodedCache)
    decodeRow(route.moeLayer, row, topK, taken);
  const auto experts = taken.experts.first(taken.count);
  if (!std::equal(experts.begin(), experts.end(), routedTo.begin(), routedTo.end())) {
    router.weigh(probabilities.data(), experts, weights);
    std::copy(experts.begin(), experts.end(), routedTo.begin());
  }
}

} // namespace moert
