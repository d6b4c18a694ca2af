// The logical half of the expert cache: which experts have pages, what is remembered of them, and
// which ones stay when a layer is executed. It has no bytes, reads or time. CacheMachine owns one
// and drives it, in a run and in every replay of one, so that all see the same hits and the same
// evictions.
//
// A layer pass: beginPass decides; then experts get pages and lose them, in any order; at endPass
// the kept ones are held and the others are not.
//
// Prefetches are read for a layer pass that has not begun. Their pages are counted apart: they are
// not held until their layer pass has decided without them and demands them, so no decision depends
// on a prefetch.
#pragma once

#include "runtime/policy/ArcBalance.h"
#include "runtime/policy/CacheUnit.h"
#include "runtime/policy/Eviction.h"
#include "runtime/policy/ExchangeRule.h"
#include "runtime/policy/ExpertPages.h"
#include "runtime/policy/PassPlan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// Artifacts store these numbers, as all numbers of rules, and one more for two pools
/// (StoredSharing in runtime/format/Manifest.h).
enum class CacheSharing : uint8_t {
  kLayerQuotas = 0, // Each layer keeps within its own quota.
  kOnePool = 1,     // All layers compete for the sum of the quotas.
};
template <> inline constexpr EnumNames<2> kNames<CacheSharing> = {"layer quotas", "one pool"};

/// What stays in the cache for a new prompt.
enum class PromptSurvival : uint8_t {
  kEverything = 0, // Experts in memory and their use; frequencies fade (fadeForPrompt).
  kContents = 1,   // The experts; their use is forgotten.
  kPins = 2,       // Only pinned experts.
};
template <>
inline constexpr EnumNames<3> kNames<PromptSurvival> = {"everything", "contents", "pins"};

struct CacheRules {
  EvictionPolicy eviction = EvictionPolicy::kLru;
  CacheSharing sharing = CacheSharing::kLayerQuotas;
  PromptSurvival survival = PromptSurvival::kEverything;
  EvictionWeights weights = {}; // For kWeighted.
  ExchangeRule exchange = {};   // For kImportance.
  /// So many first slices of a record may be held without the others, its upper slices, which then
  /// leave by themselves. 0: an expert has pages for its whole record, however little of it is
  /// read. Separate copies are held apart in any case.
  uint8_t baseSlices = 0;
  /// The part of a quota that is for upper slices and for separate copies of high precision, in
  /// units of kFixedPointOne; the rest is for base slices and low copies. 0, or without base
  /// slices: there is one pool for both.
  uint32_t upperPart = 0;

  template <typename Self, typename Visit> static void describe(Self &rules, Visit &&visit) {
    visit("eviction"_field, rules.eviction);
    visit("eviction_weights"_field, rules.weights, kAny.sparse());
    visit("exchange"_field, rules.exchange, kAny.sparse());
    visit("sharing"_field, rules.sharing);
    visit("survival"_field, rules.survival);
    visit("base_slices"_derived, rules.baseSlices);
    visit("upper_part"_field, rules.upperPart, kFixedPoint);
  }
  friend bool operator==(const CacheRules &, const CacheRules &) = default;
};

/// The experts that a layer pass demands: distinct ones of its layer, the most popular first.
struct PassDemand {
  std::span<const uint32_t> wanted;
  std::span<const uint32_t> uses = {}; // How many tokens route to each; empty: one.
  uint32_t tokens = 1;                 // In the layer pass; not 0.
  /// How many of its record's first slices each needs, 1 or more; empty: all of them.
  std::span<const uint16_t> slices = {};
  /// For kImportance: what the layer pass adds to the importance of each expert of the layer, in
  /// units of kImportanceOne (tokenImportance); empty: the uses of those that are demanded.
  std::span<const uint64_t> importances = {};
};

struct DirectoryEntry {
  ExpertHistory history;
  uint64_t bytes = 0; // Read for all its slices; a low copy beside them does not count.
  ExpertPages pages;
  uint16_t demanded = 0;               // Slices that the open layer pass demands.
  uint32_t firstSliceEnd = UINT32_MAX; // Index of its slices' ends; UINT32_MAX: it is read whole.
  uint32_t layer = 0;
  CacheUnit unit;
  uint16_t pins = 0;
  ArcPlace arc;
  bool isWanted = false; // Demanded by the open layer pass.
  /// The slices that stay after the open layer pass, of experts that are wanted, unkept or reduced.
  uint16_t keptSlices = 0;

  bool isHeld() const { return unit.isHeld(); }
  bool isPrefetch() const { return unit.isPrefetch(); }
  /// Whether the open layer pass keeps all that it demands of it.
  bool isKept() const { return keptSlices >= demanded; }
  /// Whether it has copies of low and of high precision, of which it holds one at a time.
  bool hasCopies() const { return unit.lowCopySlices > 0; }
  /// Those that it will have pages for once the open layer pass has them all. It has one of two
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

/// Filled with addLayer and addExpert up to its size, then used; allocates nothing after that.
/// For one thread. Experts are named by ids: all experts of all layers, in order.
///
/// Invariants, where room was asked for first:
///  - outside layer passes the experts held in a layer have at most its quota of pages; with one
///    pool, all of them have at most the sum of the quotas; pinned ones leave room for the largest
///    record; with two pools upper slices have at most their part of it, and base slices the rest;
///  - prefetches have at most the staging pages. During a layer pass, prefetches and the experts
///    held by the executed layer's quota group have at most that quota and the staging pages: all
///    pages are within the pool at any time.
class CacheDirectory {
public:
  CacheDirectory(const CacheRules &rules, uint64_t stagingPages, const DirectorySize &size);

  void addLayer(uint64_t quotaPages, bool repeatsEveryStep = true);
  /// Adds an expert to the last layer.
  void addExpert(uint32_t pages, uint64_t bytes = 0, uint16_t slices = 1);
  /// The same of a record that may be read in part; the slices end at these bytes. With separate
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
  /// The history of the demands for more than the base slices; only with base slices. Separate
  /// copies have one history.
  const ExpertHistory &upperHistory(uint32_t id) const { return upperHistories[id]; }
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
  /// Steps that have executed the layer, an open layer pass included.
  uint32_t turnsOf(uint32_t layer) const { return layers[layer].turn; }
  /// The layer's place among those that repeat every step, and how many these are.
  uint32_t placeOf(uint32_t layer) const { return layers[layer].place; }
  uint32_t layersInCycle() const { return cycleLayers; }
  bool repeatsEveryStep(uint32_t layer) const { return layers[layer].repeatsEveryStep; }
  /// Layer passes so far.
  uint64_t passesBegun() const { return passes; }
  /// Tokens of the last layer pass.
  uint32_t passTokens() const { return tokensOfPass; }

  /// Opens a layer pass and decides what stays. Returns false, without side effects, for an unknown
  /// or duplicate expert.
  [[nodiscard]] bool beginPass(uint32_t layer, const PassDemand &demand);
  bool isPassOpen() const { return isOpen; }
  /// The demanded experts' ids, in their order. Empty outside layer passes.
  std::span<const uint32_t> wanted() const { return wantedIds; }
  /// The experts held or wanted that do not stay.
  std::span<const uint32_t> unkept() const { return unkeptIds; }
  /// Those that stay without upper slices that are held or wanted.
  std::span<const uint32_t> reduced() const { return reducedIds; }
  /// Pages that a demanded expert needs beside those that it holds or, with another copy, will have
  /// given back.
  uint32_t missingPages(uint32_t id) const;
  /// Whether an expert that is wanted, unkept or reduced has pages that it will not keep.
  bool holdsMoreThanKept(uint32_t id) const {
    const uint16_t held = entries[id].unit.slicesHeld();
    return pagesFor(id, held) > pagesFor(id, std::min(held, entries[id].keptSlices));
  }
  void endPass();

  /// Outside layer passes: lists the experts of the layer that would have to leave so that this
  /// one, which is absent or a promotion, can stay: the least valuable ones that are not pinned.
  /// Returns false if there are not enough pages of experts that are together less valuable.
  [[nodiscard]] bool selectLeaving(uint32_t id, std::vector<uint32_t> &leavingIds) const;

  /// Changes the unit's state by the table, and with it whose pages it has. Returns the new state.
  /// A forbidden event is an error of the caller: nothing changes, and it is counted.
  UnitState apply(uint32_t id, UnitEvent event);
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

  /// Chooses what a layer is filled with at the start: the demanded experts, in their order, that
  /// fit beside what is held, with their uses. Returns false for a demand that beginPass refuses.
  [[nodiscard]] bool selectFitting(uint32_t layer, const PassDemand &demand,
                                   std::vector<uint32_t> &fitting,
                                   std::vector<uint32_t> &uses) const;
  /// Forgets or fades the history of all experts, by the rules; experts that are held stay. Not
  /// during a layer pass.
  void beginPrompt();

  /// Continues a directory of the same experts with the rules and limits of this one, which was
  /// just filled, between layer passes: takes over the history and, as far as the quotas hold them,
  /// the experts that are held, pinned ones first, then the last to leave. Frequencies and
  /// importances are forgotten if the eviction policy changes, the balance of adaptive replacement
  /// always. Pins are not taken over. Depends on past demands alone.
  void continueFrom(const CacheDirectory &before);

private:
  struct Layer {
    uint32_t firstId = 0;
    uint32_t experts = 0;
    uint32_t turn = 0;
    uint32_t tokens = 0;  // Since the records began.
    uint32_t place = 0;   // Among the layers that repeat every step.
    uint32_t group = 0;   // Its quota group.
    uint32_t ordered = 0; // Entries in leavingOrder.
    bool repeatsEveryStep = true;
    uint64_t largestRecordPages = 0;
    uint64_t heldPages = 0;
  };
  /// The layers [firstLayer, endLayer), which share the sum of their quotas: one layer, or all.
  struct QuotaGroup {
    uint32_t firstLayer = 0, endLayer = 0;
    uint64_t pages = 0;
    uint64_t heldPages = 0;
    uint64_t heldUpperPages = 0; // Those of heldPages for upper slices.
    uint64_t pinnedPages = 0;
    uint64_t largestRecordPages = 0;
    ArcBalance arc;
  };

  const QuotaGroup &groupOf(uint32_t id) const { return groups[layers[entries[id].layer].group]; }
  QuotaGroup &groupOf(uint32_t id) { return groups[layers[entries[id].layer].group]; }
  template <typename Change> void forEachHistory(uint32_t id, Change change) {
    change(entries[id].history);
    if (!upperHistories.empty())
      change(upperHistories[id]);
  }
  bool isExecutable(uint32_t layer, const PassDemand &demand);
  std::optional<uint64_t> upperPoolPages(const QuotaGroup &group) const;
  uint64_t surplusPages(const QuotaGroup &group, uint64_t pages, uint64_t upperPages) const;
  void remember(uint32_t layer, const PassDemand &demand);
  void addImportances(const Layer &layer, const PassDemand &demand);
  void decide(uint32_t layer);
  void takeAnswers();
  LayerDistance distanceTo(uint32_t layer) const;
  uint64_t addCandidate(uint32_t id, bool isUpper, const LayerDistance &distance);
  uint64_t addParts(uint32_t id, const LayerDistance &distance);
  uint64_t addCandidates(uint32_t layer, uint64_t leavingPages);
  void orderLayer(uint32_t layer);
  void forgetGhosts(QuotaGroup &group);
  void forgetUse();
  void takeHeld(const CacheDirectory &before, QuotaGroup &group);
  enum class Change : uint8_t { kAdded, kTaken };
  UnitState apply(uint32_t id, UnitEvent event, uint16_t slices);
  void countPages(uint32_t id, const CacheUnit &unit, Change change);

  CacheRules rules;
  uint64_t stagingPages;
  std::vector<Layer> layers;
  std::vector<QuotaGroup> groups;
  std::vector<DirectoryEntry> entries;
  std::vector<ExpertHistory> upperHistories; // By id; empty without base slices.
  std::vector<uint64_t> sliceEnds; // From the record's first byte, of experts read in part.
  size_t widestLayer = 0;
  bool hasSomeCopies = false;
  uint32_t cycleLayers = 0; // Layers that repeat every step.
  uint64_t passes = 0;      // The logical clock.
  uint32_t passLayer = 0;
  uint32_t tokensOfPass = 0;
  bool isOpen = false;
  uint64_t heldPrefetchPages = 0;
  uint64_t forbidden = 0;
  std::vector<uint32_t> wantedIds;
  std::vector<uint32_t> unkeptIds, reducedIds;
  std::vector<PassCandidate> candidates;
  PassScratch passScratch;
  /// With one pool: from each layer's first id on (twice that, with base slices), the experts that
  /// it held after its last turn and their upper slices, in the order in which they leave. Until
  /// its next turn only beginPrompt changes that order, whatever the policy, so the layer passes of
  /// other layers need only the first few of them.
  struct Leaving {
    uint32_t id = 0;
    bool isUpper = false;
  };
  std::vector<Leaving> leavingOrder;
  Leaving *leavingOrderOf(const Layer &layer) {
    return &leavingOrder[layer.firstId * candidatesPerExpert()];
  }
  size_t candidatesPerExpert() const { return rules.baseSlices > 0 ? 2 : 1; }
};

} // namespace moert
