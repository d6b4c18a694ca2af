#include "runtime/policy/CacheHoldings.h"

#include "runtime/base/CheckedMath.h"

#include <cassert>

namespace moert {

CacheHoldings::CacheHoldings(const CacheRules &cacheRules, uint64_t pagesInStaging,
                             const DirectorySize &size)
    : rules(cacheRules), stagingPages(pagesInStaging) {
  layers.reserve(size.layers);
  groups.reserve(rules.sharing == CacheSharing::kOnePool ? 1 : size.layers);
  entries.reserve(size.experts);
  wantedIds.reserve(size.widestLayer);
  unkeptIds.reserve(mostCandidates(rules, size));
  if (rules.baseSlices > 0)
    reducedIds.reserve(mostCandidates(rules, size));
}

void CacheHoldings::addLayer(uint64_t quotaPages) {
  const auto index = static_cast<uint32_t>(layers.size());
  if (groups.empty() || rules.sharing == CacheSharing::kLayerQuotas)
    groups.emplace_back().firstLayer = index;
  groups.back().endLayer = index + 1;
  groups.back().pages += quotaPages;
  layers.push_back({.firstId = static_cast<uint32_t>(entries.size()),
                    .group = static_cast<uint32_t>(groups.size() - 1)});
}

void CacheHoldings::addExpert(uint32_t pages, uint64_t bytes, uint16_t slices) {
  Layer &layer = layers.back();
  QuotaGroup &group = groups.back();
  widestLayer = std::max<size_t>(widestLayer, ++layer.experts);
  layer.largestRecordPages = std::max<uint64_t>(layer.largestRecordPages, pages);
  group.largestRecordPages = std::max<uint64_t>(group.largestRecordPages, pages);
  DirectoryEntry &entry = entries.emplace_back();
  entry.bytes = bytes;
  entry.pages.whole = {0, pages};
  entry.layer = static_cast<uint32_t>(layers.size() - 1);
  entry.unit.slices = slices;
}

void CacheHoldings::addExpert(std::span<const uint64_t> ends, uint64_t pageBytes,
                              uint16_t lowCopySlices) {
  assert(lowCopySlices < ends.size());
  const uint16_t base = baseSlicesOf(ends.size(), lowCopySlices, rules.baseSlices);
  const uint64_t baseEnd = base == 0 ? 0 : ends[base - 1u];
  const ExpertPages pages = expertPagesOf(ends.back(), base, baseEnd, lowCopySlices > 0, pageBytes);
  addExpert(pages.most(), lowCopySlices > 0 ? ends.back() - baseEnd : ends.back(),
            static_cast<uint16_t>(ends.size()));
  if (ends.size() == 1)
    return;
  DirectoryEntry &entry = entries.back();
  entry.pages = pages;
  entry.unit.lowCopySlices = lowCopySlices;
  hasSomeCopies |= lowCopySlices > 0;
  entry.firstSliceEnd = static_cast<uint32_t>(sliceEnds.size());
  sliceEnds.insert(sliceEnds.end(), ends.begin(), ends.end());
}

uint64_t CacheHoldings::bytesOf(uint32_t id, uint16_t first, uint16_t end) const {
  const DirectoryEntry &entry = entries[id];
  if (end == entry.unit.slices && first == entry.unit.firstOf(end))
    return entry.bytes;
  assert(entry.firstSliceEnd != UINT32_MAX);
  auto endOf = [&](uint16_t slices) {
    return slices == 0 ? 0 : sliceEnds[entry.firstSliceEnd + slices - 1];
  };
  return endOf(end) - endOf(first);
}

uint32_t CacheHoldings::missingPages(uint32_t id) const {
  const uint32_t held = entries[id].isHeld() ? pagesHeldBy(id) : 0;
  return std::max(held, pagesFor(id, entries[id].slicesDuringPass())) - held;
}

//===-- Units and their pages -----------------------------------------------------------------===//

UnitState CacheHoldings::changeUnit(uint32_t id, UnitEvent event) {
  const DirectoryEntry &entry = entries[id];
  return changeUnit(id, event,
                    event == UnitEvent::kReduced ? entry.pages.baseSlices : entry.demanded);
}

void CacheHoldings::beginPrefetch(uint32_t id, uint16_t slices) {
  changeUnit(id, UnitEvent::kPrefetchBegun, slices);
}

UnitState CacheHoldings::changeUnit(uint32_t id, UnitEvent event, uint16_t slices) {
  DirectoryEntry &entry = entries[id];
  const CacheUnit before = entry.unit;
  if (!entry.unit.apply(event, slices)) {
    assert(false && "kUnitTable forbids it");
    ++forbidden;
    return entry.unit.state;
  }
  countPages(id, before, Change::kTaken);
  countPages(id, entry.unit, Change::kAdded);
  return entry.unit.state;
}

UnitState CacheHoldings::demand(uint32_t id) {
  return changeUnit(id, entries[id].unit.demandOf(entries[id].demanded));
}

/// Adds or removes the unit's pages in its owner's totals.
void CacheHoldings::countPages(uint32_t id, const CacheUnit &unit, Change change) {
  const uint64_t pages = pagesFor(id, unit.slicesHeld());
  auto count = [change](uint64_t &sum, uint64_t number) {
    sum = change == Change::kAdded ? sum + number : sum - number;
  };
  if (ownerOf(unit.state) == PageOwner::kStaging)
    count(heldPrefetchPages, pages);
  if (ownerOf(unit.state) != PageOwner::kLayer)
    return;
  count(layers[entries[id].layer].heldPages, pages);
  count(groupOf(id).heldPages, pages);
  count(groupOf(id).heldUpperPages, entries[id].pages.upperOf(unit.slicesHeld()));
}

bool CacheHoldings::hasRoomFor(uint32_t id) const {
  const QuotaGroup &group = groupOf(id);
  return group.heldPages + heldPrefetchPages + missingPages(id) <= group.pages + stagingPages;
}

bool CacheHoldings::hasRoomForPrefetch(uint32_t id, uint16_t slices) const {
  const uint64_t pages = heldPrefetchPages + pagesFor(id, slices);
  if (!isPrefetchable(entries[id].layer) || pages > stagingPages)
    return false;
  const QuotaGroup &executed = groups[layers[passLayer].group];
  return !isOpen || executed.heldPages + pages <= executed.pages + stagingPages;
}

bool CacheHoldings::canRetain(uint32_t id) const {
  uint64_t pages = heldPrefetchPages + pagesHeldBy(id);
  return pages <= stagingPages && demandFitsBeside(pages);
}

bool CacheHoldings::demandFitsBeside(uint64_t prefetchedPages) const {
  const QuotaGroup &group = groups[layers[passLayer].group];
  uint64_t pages = group.heldPages + prefetchedPages;
  for (uint32_t id : wantedIds)
    pages += missingPages(id);
  for (uint32_t id : unkeptIds)
    pages -= entries[id].isHeld() && !entries[id].isWanted ? pagesHeldBy(id) : 0;
  for (uint32_t id : reducedIds)
    pages -= entries[id].isHeld() && !entries[id].isWanted
                 ? pagesHeldBy(id) - pagesFor(id, entries[id].keptSlices)
                 : 0;
  return pages <= group.pages + stagingPages;
}

std::optional<uint64_t> CacheHoldings::upperPoolPages(const QuotaGroup &group) const {
  if (rules.baseSlices == 0 || rules.upperPart == 0)
    return {};
  return group.pages / kFixedPointOne * rules.upperPart +
         group.pages % kFixedPointOne * rules.upperPart / kFixedPointOne;
}

/// How many of so many pages, with so many of them for upper slices, are beyond the quota's pools.
uint64_t CacheHoldings::surplusPages(const QuotaGroup &group, uint64_t pages,
                                     uint64_t upperPages) const {
  auto beyond = [](uint64_t held, uint64_t pool) { return held - std::min(held, pool); };
  const std::optional<uint64_t> upper = upperPoolPages(group);
  return upper ? beyond(upperPages, *upper) + beyond(pages - upperPages, group.pages - *upper)
               : beyond(pages, group.pages);
}

//===-- Pins ----------------------------------------------------------------------------------===//

uint64_t CacheHoldings::pinLimitPages(uint32_t id) const {
  const QuotaGroup &group = groupOf(id);
  if (upperPoolPages(group))
    return 0;
  return std::min(group.pages, group.pages + stagingPages - group.largestRecordPages);
}

bool CacheHoldings::pin(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  uint64_t pages = entry.pins == 0 ? entry.pages.most() : 0;
  if (pages > 0 && pinnedPages(id) + pages > pinLimitPages(id))
    return false;
  groupOf(id).pinnedPages += pages;
  ++entry.pins;
  return true;
}

void CacheHoldings::unpin(uint32_t id) {
  DirectoryEntry &entry = entries[id];
  assert(entry.pins > 0);
  if (--entry.pins == 0)
    groupOf(id).pinnedPages -= entry.pages.most();
}

} // namespace moert
