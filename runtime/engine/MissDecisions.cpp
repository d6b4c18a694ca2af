#include "runtime/engine/MissDecisions.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/engine/Footprint.h"
#include "runtime/policy/InstantReads.h"

#include <algorithm>

namespace moert {

uint64_t MissDecisions::batchBytes(const Artifact &artifact, uint64_t rows) {
  return rows * (sizeof(uint32_t) + largestTopK(artifact) * sizeof(uint16_t));
}

MissDecisions::MissDecisions(const Artifact &artifact, uint64_t rows, bool decodesBatches) {
  const uint64_t widestLayer = mostExpertsOf(artifact), topK = largestTopK(artifact);
  likelihoods.resize(roundUp(widestLayer, 16));
  for (std::vector<uint16_t> *perExpert : {&resident, &demanded, &wantedSlices})
    perExpert->resize(widestLayer);
  ranks.resize(rows);
  takenExperts.resize(topK);
  takenSlices.resize(topK);
  if (decodesBatches)
    slicesOfRanks.resize(rows * topK);
}

void MissDecisions::decodeFrom(const CacheMachine &machine) {
  decodedCache = std::make_unique<CacheMachine>(machine);
}

void MissDecisions::beginLayer(ExpertStore &experts, uint32_t moeLayer) {
  const uint32_t count = experts.layer(moeLayer).experts();
  if (!decodedCache) {
    const CacheMachine &machine = experts.cache().decisions();
    countResident(machine, machine.state().idOf(experts.cached(moeLayer), 0), count);
  }
  std::fill_n(demanded.begin(), count, uint16_t(0));
  lowered = skipped = substituted = 0;
  countsOfRows = {};
}

void MissDecisions::countResident(const CacheMachine &machine, uint32_t firstId, uint32_t experts) {
  for (uint32_t expert = 0; expert < experts; ++expert)
    resident[expert] = machine.slicesCounted(firstId + expert);
}

void MissDecisions::decodeRow(uint32_t cachedLayer, uint64_t firstRank, const TakenExperts &taken) {
  rowWanted.clear();
  for (uint32_t i = 0; i < taken.count; ++i)
    rowWanted.push_back(static_cast<uint32_t>(taken.experts[i]));
  // As a step of one token orders them.
  std::sort(rowWanted.begin(), rowWanted.end());
  rowSlices.resize(taken.count);
  for (uint32_t i = 0; i < taken.count; ++i) {
    const auto place = std::lower_bound(rowWanted.begin(), rowWanted.end(),
                                        static_cast<uint32_t>(taken.experts[i]));
    rowSlices[static_cast<size_t>(place - rowWanted.begin())] = taken.slices[i];
    slicesOfRanks[firstRank + i] = taken.slices[i];
  }
  executeInstantly(*decodedCache, cachedLayer, {rowWanted, {}, 1, rowSlices});
  countsOfRows += decodedCache->takeCounts();
}

void MissDecisions::decide(Step &step, ExpertStore &experts, const RouteInstruction &route,
                           const Router &router, uint32_t row, const float *probabilities) {
  const MoeLayerTables &layer = experts.layer(route.moeLayer);
  const uint32_t topK = step.bufferInfo(route.experts).width;
  const size_t count = layer.experts();
  const uint32_t cachedLayer = experts.cached(route.moeLayer);
  if (decodedCache)
    countResident(*decodedCache, decodedCache->state().idOf(cachedLayer, 0), layer.experts());
  const std::span<int32_t> routedTo(step.buffer(route.experts).integers(row), topK);
  const std::span<float> weights(step.buffer(route.weights).floats(row), topK);
  const bool usesLikelihoods = rowOf(missRule.action).usesLikelihoods;
  if (usesLikelihoods)
    router.computeLikelihoods(step.buffer(route.scores).floats(row), likelihoods.data());
  const MissInputs inputs = {routedTo,
                             weights,
                             {likelihoods.data(), usesLikelihoods ? count : 0},
                             layer.planned,
                             {resident.data(), count}};
  TakenExperts taken = {{takenExperts.data(), topK}, {takenSlices.data(), topK}};
  step.observer->onMissRule(route.moeLayer, step.batch[row].position, inputs);
  decideMisses(missRule, inputs, taken);
  lowered += taken.lowered;
  skipped += taken.skipped;
  substituted += taken.substituted;
  for (uint32_t i = 0; i < taken.count; ++i) {
    uint16_t &most = demanded[static_cast<size_t>(taken.experts[i])];
    most = std::max(most, taken.slices[i]);
  }
  ranks[row] = taken.count;
  if (decodedCache)
    decodeRow(cachedLayer, uint64_t(row) * topK, taken);
  const auto chosen = taken.experts.first(taken.count);
  if (!std::equal(chosen.begin(), chosen.end(), routedTo.begin(), routedTo.end())) {
    router.weigh(probabilities, chosen, weights);
    std::copy(chosen.begin(), chosen.end(), routedTo.begin());
  }
}

std::span<const uint16_t> MissDecisions::slicesOf(const Step &step, const MoeLayerTables &layer,
                                                  std::span<const uint32_t> wanted) {
  const std::span<uint16_t> slices = std::span(wantedSlices).first(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    slices[i] = step.isLossy ? demanded[wanted[i]] : layer.planned[wanted[i]];
  if (step.lowersPrompt)
    lowerUnpopular(missRule, slices);
  return slices;
}

void MissDecisions::addTo(LayerProfile &profile) const {
  profile.lowered += lowered;
  profile.skipped += skipped;
  profile.substituted += substituted;
}

} // namespace moert
