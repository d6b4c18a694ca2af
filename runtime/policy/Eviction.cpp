#include "runtime/policy/Eviction.h"

#include <cassert>

namespace moert {

static bool leavesBefore(const EvictionCandidate &a, const EvictionCandidate &b) {
  if (a.lastUse != b.lastUse)
    return a.lastUse < b.lastUse;
  if (a.rank != b.rank)
    return a.rank > b.rank;
  return a.expert < b.expert;
}

size_t chooseVictim(EvictionPolicy policy, std::span<const EvictionCandidate> candidates) {
  assert(policy == EvictionPolicy::kLru && !candidates.empty());
  (void)policy;
  size_t victim = 0;
  for (size_t i = 1; i < candidates.size(); ++i)
    if (leavesBefore(candidates[i], candidates[victim]))
      victim = i;
  return victim;
}

} // namespace moert
