#include "runtime/policy/PublishedScores.h"

#include "runtime/policy/Eviction.h"

#include <algorithm>

namespace moert {

uint64_t tokenImportance(float inputNorm, float weight, uint32_t expertNorm) {
  constexpr float kMost = 4096;
  // The scalings are by powers of two and so exact. A NaN fails the comparison.
  const float value = inputNorm * weight * (static_cast<float>(expertNorm) / kFixedPointOne);
  return value > 0 ? static_cast<uint64_t>(std::min(value, kMost) * kImportanceOne) : 0;
}

ImportanceStep::ImportanceStep(uint32_t tokensOfPass, uint32_t fadeShift)
    : tokens(tokensOfPass), kept(keptAfter(tokensOfPass, fadeShift)),
      moved((kFixedPointOne - kept) << fadeShift) {}

// A token adds at most 2^28, so a sum has at most 2^39, and both products are below 2^64.
void ImportanceStep::apply(ExpertHistory &history, uint64_t added) const {
  constexpr uint64_t kMostOfToken = 4096 * kImportanceOne;
  const uint64_t ofToken = std::min(added / tokens, kMostOfToken);
  history.importance =
      (history.importance * kept >> kFixedPointBits) + (ofToken * moved >> kFixedPointBits);
}

// The paper prints the divisor as (S - i + I) mod S, the layers since the last turn; by its text
// layers whose turn is near are to be kept. The formula would evict them first; this is what the
// text says.
uint64_t edgeMoeValue(const ExpertHistory &history, const LayerDistance &distance,
                      const EvictionWeights & /*weights*/) {
  return (uint64_t(history.tokens) << 20) / distance.layersAhead;
}

// At most 2^48, as the weights are at most 2^24 in all. A layer's experts keep their order until
// its next turn: only the part of the layers to come changes, by the same for all of them.
uint64_t weightedValue(const ExpertHistory &history, const LayerDistance &distance,
                       const EvictionWeights &weights) {
  auto part = [&distance](uint32_t tokens) -> uint64_t {
    const uint64_t all = std::max(1u, distance.tokens);
    return std::min<uint64_t>(tokens, all) * kFixedPointOne / all;
  };
  // As the paper prints it, the layer that is executed is the nearest.
  const uint64_t layersAhead = distance.layersAhead % distance.layers;
  const uint64_t nearness = kFixedPointOne - kFixedPointOne * layersAhead / distance.layers;
  return weights.recency * part(history.lastToken) + weights.frequency * part(history.tokens) +
         weights.fullFrequency * part(history.fullTokens) + weights.nearness * nearness;
}

} // namespace moert
