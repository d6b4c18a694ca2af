// Which expert leaves memory when there is no room for all, and what is remembered for that. Pure
// functions: the runtime's cache and the compiler's simulation call the same ones.
#pragma once

#include "runtime/policy/EvictionScores.h"

#include <cstdint>

namespace moert {

/// How far a layer pass of some tokens (not 0) moves the frequencies: as far as the tokens one by
/// one would, had each wanted the same.
class FrequencyStep {
public:
  explicit FrequencyStep(uint32_t tokens);

  /// For every expert of the layer.
  void fade(ExpertHistory &history) const;
  /// Then for those that `uses` of the tokens wanted.
  void add(ExpertHistory &history, uint32_t uses) const;

private:
  uint32_t tokens;
  uint64_t recentKept, longKept; // In units of kFixedPointOne.
};

/// What tokens leave of a frequency of 1, each of which takes 1/2^shift of it.
uint64_t keptAfter(uint32_t tokens, uint32_t shift);

/// A new prompt is likely to be another text: to the policies of reuse distance and importance what
/// was wanted before, or was said of the start, counts a quarter of what is wanted from now on.
void fadeForPrompt(ExpertHistory &history);

/// An expert that may be evicted, or its upper slices alone (CacheRules::baseSlices), which count
/// the uses that needed them.
struct EvictionCandidate {
  uint32_t expert = 0;
  uint64_t lastUse = 0; // The logical time of its last use; the layer pass, not the wall clock.
  uint32_t rank = 0;    // In that layer pass.
  uint64_t value = 0;   // keepingValue()
  bool isUpper = false;
};

/// The less valuable one leaves; of equal values the one with the older last use, then the one of
/// higher rank (less popular), then the lower expert, then its upper slices, so that the choice
/// depends on nothing else. Upper slices are used no more often and no later than their expert, so
/// they leave before it.
bool leavesBefore(const EvictionCandidate &a, const EvictionCandidate &b);

} // namespace moert
