// Which experts of a cache have pages, and how many: the units of all experts, the pages that
// layers, quota groups and prefetches have together, and what there is room for. Decides nothing:
// what is remembered and what stays is CacheDirectory's. It has no bytes, reads or time.
//
// Prefetches are read for a layer pass that has not begun. Their pages are counted apart: they are
// not held until their layer pass has decided without them and demands them, so no decision depends
// on a prefetch.
#pragma once

#include "runtime/policy/CacheRules.h"
#include "runtime/policy/CacheUnit.h"
#include "runtime/policy/ExpertPages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// An expert: what is remembered of it, and what it has in memory.
struct DirectoryEntry {
  ExpertHistory history;
  uint64_t bytes = 0; // Read for all its slices; a low copy beside them does not count.
  ExpertPages pages;
  uint16_t demanded = 0;               // Slices that the open layer pass demands.
  uint32_t firstSliceEnd = UINT32_MAX; // Index of its slices' ends; UINT32_MAX: it is read whole.
  uint32_t layer = 0;
  CacheUnit unit;
  uint16_t pins = 0;
  bool isWanted = false; // Demanded by the open layer pass.
  /// The slices that stay after the open layer pass, of experts that are wanted, unkept or reduced.
  uint16_t keptSlices = 0;

  bool isHeld() const { return unit.isHeld(); }
  bool isPrefetch() const { return unit.isPrefetch(); }
  /// Whether the open layer pass keeps all that it demands of it.
  bool isKept() const { return keptSlices >= demanded; }
  /// Whether it has copies of low and of high precision, of which it holds one at a time.
  bool hasCopies() const { return unit.lowCopySlices > 0; }
  /// Slices that have pages once the open layer pass has read its demand. An expert has one of two
  /// copies: the one that is held is given up for one of higher precision.
  uint16_t slicesDuringPass() const {
    return std::max(isHeld() ? unit.slicesHeld() : uint16_t(0), isWanted ? demanded : uint16_t(0));
  }
};

/// The sizes of the tables, so that each is allocated once.
struct DirectorySize {
  size_t layers = 0;
  size_t experts = 0;
  size_t widestLayer = 0; // In experts.
};

/// The base of CacheDirectory, which opens and closes layer passes. Filled with addLayer and
/// addExpert up to its size, then used; allocates nothing after that. For one thread. Experts are
/// named by ids: all experts of all layers, in order.
///
/// Invariants, where room was asked for first:
///  - outside layer passes the experts held in a layer have at most its quota of pages; with one
///    pool, all of them have at most the sum of the quotas; pinned ones leave room for the largest
///    record; with two pools upper slices have at most their part of it, and base slices the rest;
///  - prefetches have at most the staging pages. During a layer pass, prefetches and the experts
///    held by the executed layer's quota group have at most that quota and the staging pages: all
///    pages are within the pool at any time.
class CacheHoldings {
public:
  void addLayer(uint64_t quotaPages);
  /// Adds an expert to the last layer.
  void addExpert(uint32_t pages, uint64_t bytes = 0, uint16_t slices = 1);
  /// Adds an expert whose record may be read in part; the slices end at these bytes. With separate
  /// copies, lowCopySlices of them, less than all, are the low one; the others are complete without
  /// these.
  void addExpert(std::span<const uint64_t> sliceEnds, uint64_t pageBytes,
                 uint16_t lowCopySlices = 0);

  DirectorySize size() const { return {layers.size(), entries.size(), widestLayer}; }
  size_t layerCount() const { return layers.size(); }
  uint32_t expertsIn(uint32_t layer) const { return layers[layer].experts; }
  uint32_t idOf(uint32_t layer, uint32_t expert) const { return layers[layer].firstId + expert; }
  uint32_t expertOf(uint32_t id) const { return id - layers[entries[id].layer].firstId; }
  const DirectoryEntry &at(uint32_t id) const { return entries[id]; }
  /// Whether any expert has separate copies.
  bool hasCopies() const { return hasSomeCopies; }
  /// Bytes of the slices [first, end) of its record.
  uint64_t bytesOf(uint32_t id, uint16_t first, uint16_t end) const;
  /// Pages for the expert with so many slices, and how many they are.
  PageRange pageRangeFor(uint32_t id, uint16_t slices) const {
    return entries[id].pages.of(slices);
  }
  uint32_t pagesFor(uint32_t id, uint16_t slices) const { return pageRangeFor(id, slices).count(); }
  uint32_t pagesHeldBy(uint32_t id) const { return pagesFor(id, entries[id].unit.slicesHeld()); }
  const CacheRules &cacheRules() const { return rules; }
  uint64_t pagesHeld(uint32_t layer) const { return layers[layer].heldPages; }
  uint64_t prefetchPages() const { return heldPrefetchPages; }
  uint64_t pagesInStaging() const { return stagingPages; }
  bool isPassOpen() const { return isOpen; }
  /// The demanded experts' ids, in their order. Empty outside layer passes.
  std::span<const uint32_t> wanted() const { return wantedIds; }
  /// The experts held or wanted that do not stay.
  std::span<const uint32_t> unkept() const { return unkeptIds; }
  /// Experts that stay without upper slices that are held or wanted.
  std::span<const uint32_t> reduced() const { return reducedIds; }
  /// Pages that a demanded expert needs beside those that it holds or, with another copy, will have
  /// given back.
  uint32_t missingPages(uint32_t id) const;
  /// Whether an expert that is wanted, unkept or reduced has pages that it will not keep.
  bool holdsMoreThanKept(uint32_t id) const {
    const uint16_t held = entries[id].unit.slicesHeld();
    return pagesFor(id, held) > pagesFor(id, std::min(held, entries[id].keptSlices));
  }

  /// The open layer pass demands it: applies the event of that.
  UnitState demand(uint32_t id);
  /// The read of so many of its slices begins as a prefetch.
  void beginPrefetch(uint32_t id, uint16_t slices);
  uint64_t forbiddenEvents() const { return forbidden; }

  /// Whether what a demanded expert lacks may get pages now, within the quota and the staging
  /// pages.
  bool hasRoomFor(uint32_t id) const;
  /// Whether a prefetch of so many slices may get pages now. During a layer pass prefetches share
  /// the staging pages with the demand, so the caller begins them when all demanded experts have
  /// pages. A layer with a record larger than the staging pages is never prefetched: an expert that
  /// passes through could not do so beside prefetches that stay.
  bool hasRoomForPrefetch(uint32_t id, uint16_t slices) const;
  /// Whether an expert that the open layer pass does not keep may stay as a prefetch with its
  /// pages: they are within the staging pages, and the demand has room beside all prefetches.
  bool canRetain(uint32_t id) const;
  bool isPrefetchable(uint32_t layer) const {
    return layers[layer].largestRecordPages <= stagingPages;
  }
  /// Whether everything that the open layer pass demands has room at once beside so many pages of
  /// prefetches of later layers.
  bool demandFitsBeside(uint64_t prefetchedPages) const;

  /// Keeps an expert from its next use on, until unpin; calls nest. Not during a layer pass.
  /// Returns false, without side effects, if more pages were pinned than pinLimitPages.
  [[nodiscard]] bool pin(uint32_t id);
  void unpin(uint32_t id);
  /// The limit for all experts of the same quota group together; 0 with two pools.
  uint64_t pinLimitPages(uint32_t id) const;
  uint64_t pinnedPages(uint32_t id) const { return groupOf(id).pinnedPages; }

protected:
  struct Layer {
    uint32_t firstId = 0;
    uint32_t experts = 0;
    uint32_t group = 0; // Its quota group.
    uint64_t largestRecordPages = 0;
    uint64_t heldPages = 0;
  };
  /// The layers [firstLayer, endLayer), which share the sum of their quotas: one layer, or all.
  struct QuotaGroup {
    uint32_t firstLayer = 0, endLayer = 0;
    uint64_t pages = 0;
    uint64_t heldPages = 0;
    uint64_t heldUpperPages = 0; // The part of heldPages for upper slices.
    uint64_t pinnedPages = 0;
    uint64_t largestRecordPages = 0;
  };

  CacheHoldings(const CacheRules &rules, uint64_t stagingPages, const DirectorySize &size);

  uint32_t endIdOf(const QuotaGroup &group) const {
    return layers[group.endLayer - 1].firstId + layers[group.endLayer - 1].experts;
  }
  const QuotaGroup &groupOf(uint32_t id) const { return groups[layers[entries[id].layer].group]; }
  QuotaGroup &groupOf(uint32_t id) { return groups[layers[entries[id].layer].group]; }
  /// Changes the unit's state by the table, and with it whose pages it has. Returns the new state.
  /// A forbidden event is an error of the caller: nothing changes, and it is counted.
  UnitState changeUnit(uint32_t id, UnitEvent event);
  std::optional<uint64_t> upperPoolPages(const QuotaGroup &group) const;
  uint64_t surplusPages(const QuotaGroup &group, uint64_t pages, uint64_t upperPages) const;
  /// With one pool every expert in memory competes in every layer pass.
  static size_t mostCandidates(const CacheRules &rules, const DirectorySize &size) {
    return rules.sharing == CacheSharing::kOnePool ? size.experts : size.widestLayer;
  }

  CacheRules rules;
  uint64_t stagingPages;
  std::vector<Layer> layers;
  std::vector<QuotaGroup> groups;
  std::vector<DirectoryEntry> entries;
  size_t widestLayer = 0;

  // The open layer pass, or the last one.
  uint32_t passLayer = 0;
  bool isOpen = false;
  std::vector<uint32_t> wantedIds;
  std::vector<uint32_t> unkeptIds, reducedIds;

private:
  enum class Change : uint8_t { kAdded, kTaken };
  UnitState changeUnit(uint32_t id, UnitEvent event, uint16_t slices);
  void countPages(uint32_t id, const CacheUnit &unit, Change change);

  std::vector<uint64_t> sliceEnds; // From the record's first byte, of experts read in part.
  bool hasSomeCopies = false;
  uint64_t heldPrefetchPages = 0;
  uint64_t forbidden = 0;
};

} // namespace moert
