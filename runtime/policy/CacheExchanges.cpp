// What a directory does for exchanges by importance alone.
#include "runtime/policy/CacheDirectory.h"
#include "runtime/policy/PublishedScores.h"

#include <algorithm>
#include <cassert>
#include <optional>

namespace moert {

/// Without importances, each use counts as one.
void CacheDirectory::addImportances(const Layer &layer, const PassDemand &demand) {
  assert(demand.importances.empty() || demand.importances.size() == layer.experts);
  const ImportanceStep step(demand.tokens, rules.exchange.fadeShift);
  auto usesOf = [&demand](size_t rank) { return demand.uses.empty() ? 1 : demand.uses[rank]; };
  for (uint32_t expert = 0; expert < layer.experts; ++expert) {
    const DirectoryEntry &entry = entries[layer.firstId + expert];
    uint64_t added = demand.importances.empty() ? 0 : demand.importances[expert];
    if (demand.importances.empty() && entry.isWanted)
      added = usesOf(entry.history.rank) * kImportanceOne;
    forEachHistory(layer.firstId + expert,
                   [&](ExpertHistory &history) { step.apply(history, added); });
  }
}

bool CacheDirectory::selectLeaving(uint32_t id, std::vector<uint32_t> &leavingIds) const {
  const DirectoryEntry &entry = entries[id];
  const QuotaGroup &group = groupOf(id);
  const LayerDistance distance = distanceTo(entry.layer);
  auto useOf = [&](uint32_t one) {
    const ExpertHistory &history = entries[one].history;
    return EvictionCandidate{one, history.lastUse, history.rank,
                             keepingValue(rules.eviction, history, distance, rules.weights)};
  };
  leavingIds.clear();
  if (entry.pages.most() > group.pages)
    return false;
  uint64_t held = group.heldPages, value = 0;
  while (held + entry.pages.most() > group.pages) {
    std::optional<EvictionCandidate> least;
    for (uint32_t i = 0; i < layers[entry.layer].experts; ++i) {
      const uint32_t one = layers[entry.layer].firstId + i;
      const bool canLeave =
          entries[one].unit.state == UnitState::kReady && entries[one].pins == 0 &&
          std::find(leavingIds.begin(), leavingIds.end(), one) == leavingIds.end();
      if (canLeave && (!least || leavesBefore(useOf(one), *least)))
        least = useOf(one);
    }
    if (!least || (value += least->value) >= useOf(id).value)
      return false;
    leavingIds.push_back(least->expert);
    held -= pagesHeldBy(least->expert);
  }
  return true;
}

} // namespace moert
