#include "runtime/policy/Eviction.h"

#include <algorithm>

namespace moert {

// A token moves the recent frequency by 1/2 and the long one by 1/64: they forget half of what was
// in one and in 44 tokens. Chosen on the bundled model's traces of two kinds of text, decoded for
// long and in pieces of 48 and 96 tokens behind prompts, of one kind or of both in turn, with a
// quarter, half and three quarters of the experts in memory. There 1/4 hits up to 0.4 points less,
// a long frequency of 1/128 up to 1.4 less, above all where texts change, and 1/32 0.4 less to 0.6
// more; weights of 1/17 and 1/5 for the recent frequency up to 0.5 less, the best single frequency
// up to 0.9 less. A third frequency, or the router's scores beside its choices, gave 0.2 at most.
// All of that without fadeForPrompt.
static constexpr uint32_t kRecentShift = 1;
static constexpr uint32_t kLongShift = 6;
static constexpr uint32_t kFixedPointBits = 24;
static_assert(kFixedPointOne == uint32_t(1) << kFixedPointBits);

static uint64_t keptAfter(uint32_t tokens, uint32_t shift) {
  uint64_t kept = kFixedPointOne;
  for (uint32_t i = 0; i < tokens && kept >> shift > 0; ++i)
    kept -= kept >> shift;
  return kept;
}

FrequencyStep::FrequencyStep(uint32_t tokensOfPass)
    : tokens(tokensOfPass), recentKept(keptAfter(tokensOfPass, kRecentShift)),
      longKept(keptAfter(tokensOfPass, kLongShift)) {}

void FrequencyStep::fade(ExpertHistory &history) const {
  history.recentFrequency =
      static_cast<uint32_t>(history.recentFrequency * recentKept >> kFixedPointBits);
  history.longFrequency =
      static_cast<uint32_t>(history.longFrequency * longKept >> kFixedPointBits);
}

void FrequencyStep::add(ExpertHistory &history, uint32_t uses) const {
  uint64_t wanted = std::min(uses, tokens);
  history.recentFrequency += static_cast<uint32_t>((kFixedPointOne - recentKept) * wanted / tokens);
  history.longFrequency += static_cast<uint32_t>((kFixedPointOne - longKept) * wanted / tokens);
}

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

// With prompts of 64 tokens of another kind of text and 48 decoded after each, a quarter hits 0.1
// to 0.7 points more than the whole, and within one kind of text 0.1 less to 0.1 more; a half or an
// eighth are 0.2 at most from that.
void fadeForPrompt(ExpertHistory &history) {
  history.recentFrequency /= 4;
  history.longFrequency /= 4;
  history.importance /= 4;
}

// The expected time until the next use, in cycles of the layers: the turns of its layer that pass
// without it, and the way to the first of them, which is known exactly. A long frequency alone
// takes an expert that has just become popular for a rare one, a recent frequency alone forgets too
// soon.
static uint64_t expectedWait(const ExpertHistory &history, const LayerDistance &distance) {
  constexpr uint64_t kOneCycle = 1 << 12;
  uint64_t frequency = (history.recentFrequency + 8 * uint64_t(history.longFrequency)) / 9;
  return kOneCycle * kFixedPointOne / std::max<uint64_t>(frequency, 1) +
         kOneCycle * distance.layersAhead / distance.layers;
}

// At most 2^48, as the weights are at most 2^24 in all. A layer's experts keep their order until
// its next turn: only the part of the layers to come changes, by the same for all of them.
static uint64_t weightedValue(const ExpertHistory &history, const LayerDistance &distance,
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

uint64_t keepingValue(EvictionPolicy policy, const ExpertHistory &history,
                      const LayerDistance &distance, const EvictionWeights &weights) {
  bool usesDistance = policy == EvictionPolicy::kEdgeMoe || policy == EvictionPolicy::kLeastStale ||
                      policy == EvictionPolicy::kReuseDistance ||
                      policy == EvictionPolicy::kWeighted;
  if (usesDistance && !distance.repeatsEveryStep)
    return 0;
  switch (policy) {
  case EvictionPolicy::kLru:
  case EvictionPolicy::kArc:
    return 0;
  case EvictionPolicy::kLfu:
    return history.tokens;
  case EvictionPolicy::kEdgeMoe:
    // The paper prints the divisor as (S - i + I) mod S, the layers since the last turn, and says
    // that layers whose turn is near are to be kept. The formula would evict them first; this is
    // what the text says.
    return (uint64_t(history.tokens) << 20) / distance.layersAhead;
  case EvictionPolicy::kLeastStale: {
    uint64_t missedTurns = distance.turn - history.lastTurn;
    return (UINT32_MAX - missedTurns) << 32 | (UINT32_MAX - distance.layersAhead);
  }
  case EvictionPolicy::kReuseDistance:
    return UINT64_MAX - expectedWait(history, distance);
  case EvictionPolicy::kWeighted:
    return weightedValue(history, distance, weights);
  case EvictionPolicy::kImportance:
    return history.importance;
  }
  return 0;
}

bool leavesBefore(const EvictionCandidate &a, const EvictionCandidate &b) {
  if (a.value != b.value)
    return a.value < b.value;
  if (a.lastUse != b.lastUse)
    return a.lastUse < b.lastUse;
  if (a.rank != b.rank)
    return a.rank > b.rank;
  if (a.expert != b.expert)
    return a.expert < b.expert;
  return a.isUpper && !b.isUpper;
}

} // namespace moert
