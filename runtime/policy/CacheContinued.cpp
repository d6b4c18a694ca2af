// How a cache continues with other rules and quotas.
#include "runtime/policy/CacheDirectory.h"

#include <algorithm>
#include <cassert>

namespace moert {

void CacheDirectory::continueFrom(const CacheDirectory &before) {
  assert(!isOpen && !before.isOpen && entries.size() == before.entries.size());
  passes = before.passes;
  passLayer = before.passLayer;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    turns[layer].turn = before.turns[layer].turn;
    turns[layer].tokens = before.turns[layer].tokens;
  }
  for (uint32_t id = 0; id < entries.size(); ++id) {
    entries[id].history = before.entries[id].history;
    if (rules.baseSlices > 0)
      upperHistories[id] =
          before.rules.baseSlices > 0 ? before.upperHistories[id] : before.entries[id].history;
    // Frequencies and importances fade with each layer pass, and only where they are used.
    if (before.rules.eviction != rules.eviction)
      forEachHistory(id, [](ExpertHistory &history) {
        history.recentFrequency = history.longFrequency = 0;
        history.importance = 0;
      });
  }
  for (QuotaGroup &group : groups)
    takeHeld(before, group);
  for (uint32_t layer = 0; layer < layers.size() && !leavingOrder.empty(); ++layer)
    orderLayer(layer);
}

void CacheDirectory::takeHeld(const CacheDirectory &before, QuotaGroup &group) {
  candidates.clear();
  for (uint32_t layer = group.firstLayer; layer < group.endLayer; ++layer) {
    const LayerDistance distance = distanceTo(layer);
    for (uint32_t i = 0; i < layers[layer].experts; ++i) {
      const uint32_t id = layers[layer].firstId + i;
      const uint16_t present = before.entries[id].unit.slicesPresent;
      // An expert that was held in part without pages for the rest is not taken where it would need
      // them.
      if (before.entries[id].unit.state != UnitState::kReady ||
          pagesFor(id, present) > before.pagesHeldBy(id))
        continue;
      const bool hasUpper = entries[id].pages.upperOf(present) > 0;
      if (!hasUpper || !entries[id].hasCopies())
        addCandidate(id, false, distance);
      if (hasUpper)
        addCandidate(id, true, distance);
    }
  }
  auto isPinned = [&](const PassCandidate &one) { return before.at(one.use.expert).pins > 0; };
  std::sort(candidates.begin(), candidates.end(),
            [&](const PassCandidate &a, const PassCandidate &b) {
              return isPinned(a) != isPinned(b) ? isPinned(a) : leavesBefore(b.use, a.use);
            });
  for (const PassCandidate &candidate : candidates) {
    const uint32_t id = candidate.use.expert;
    const uint64_t upperPages =
        group.heldUpperPages + (candidate.use.isUpper ? candidate.pages : 0);
    DirectoryEntry &entry = entries[id];
    if (surplusPages(group, group.heldPages + candidate.pages, upperPages) > 0 ||
        (candidate.use.isUpper && !entry.hasCopies() && !entry.isHeld()))
      continue;
    const bool isPart = !candidate.use.isUpper && candidate.pages < entry.pages.most();
    const uint16_t present = before.entries[id].unit.slicesPresent;
    entry.demanded = isPart ? std::min(present, entry.pages.baseSlices) : present;
    demand(id);
    for (UnitEvent event : {UnitEvent::kReadBegun, UnitEvent::kReadCompleted})
      apply(id, event);
    if (adaptive)
      adaptive->take(layers[entry.layer].group, id, pagesHeldBy(id), group.pages);
  }
}

} // namespace moert
