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

uint64_t keptAfter(uint32_t tokens, uint32_t shift) {
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

// With prompts of 64 tokens of another kind of text and 48 decoded after each, a quarter hits 0.1
// to 0.7 points more than the whole, and within one kind of text 0.1 less to 0.1 more; a half or an
// eighth are 0.2 at most from that.
void fadeForPrompt(ExpertHistory &history) {
  history.recentFrequency /= 4;
  history.longFrequency /= 4;
  history.importance /= 4;
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
