// Adaptive replacement in a cache: the places of all experts and the balance of each quota group.
// Only the cache of a plan that evicts by it has one.
#pragma once

#include "runtime/policy/ArcBalance.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moert {

/// Experts are named by the directory's ids; a group's are [firstId, endId). Part of
/// CacheDirectory, which has the numbers of pages.
class AdaptiveReplacement {
public:
  /// At most so many groups and so many experts, or it allocates more.
  AdaptiveReplacement(size_t groups, size_t experts) {
    balances.reserve(groups);
    places.reserve(experts);
  }
  void addGroup() { balances.emplace_back(); }
  void addExpert() { places.emplace_back(); }

  const ArcPlace &placeOf(uint32_t id) const { return places[id]; }
  bool isUsedAgain(uint32_t id) const { return places[id].list == ArcList::kAgain; }
  uint64_t targetPages(uint32_t group) const { return balances[group].targetPages(); }

  void use(uint32_t group, uint32_t id, uint32_t pages, uint64_t quotaPages) {
    balances[group].use(places[id], pages, quotaPages);
  }
  /// It is in memory with so many pages, and was there before.
  void take(uint32_t group, uint32_t id, uint32_t pages, uint64_t quotaPages) {
    if (places[id].list == ArcList::kForgotten)
      use(group, id, pages, quotaPages);
    else
      resize(group, id, pages);
  }
  void resize(uint32_t group, uint32_t id, uint32_t pages) {
    balances[group].resize(places[id], pages);
  }
  void leave(uint32_t group, uint32_t id) { balances[group].leave(places[id]); }
  void forgetAll() {
    places.assign(places.size(), {});
    balances.assign(balances.size(), {});
  }
  /// Forgets the ghosts of a group that are too many, the last used of them latest.
  template <typename LastUse>
  void forgetGhosts(uint32_t group, uint64_t quotaPages, uint32_t firstId, uint32_t endId,
                    LastUse lastUseOf) {
    for (ArcList list;
         (list = balances[group].overfullGhosts(quotaPages)) != ArcList::kForgotten;) {
      uint32_t oldest = endId;
      for (uint32_t id = firstId; id < endId; ++id)
        if (places[id].list == list && (oldest == endId || lastUseOf(id) < lastUseOf(oldest)))
          oldest = id;
      balances[group].forget(places[oldest]);
    }
  }

private:
  std::vector<ArcPlace> places;     // By id.
  std::vector<ArcBalance> balances; // By group.
};

} // namespace moert
