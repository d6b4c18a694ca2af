// The logical half of the expert cache: which experts hold pages, what is remembered of them, and
// which ones stay when a layer is executed. Neither bytes nor reads nor time: the runtime's cache
// puts its pages beside this and the compiler's simulation counts with it, so that both see the
// same hits and the same evictions.
//
// A layer pass: beginPass decides; then experts are held and dropped as they are read and let go,
// in any order; then endPass, when what is kept is held and what is unkept is not.
//
// Prefetched experts are read for a layer pass that has not begun. Their pages are counted apart:
// they are not held until their execute has decided without them and they are useful, so that no
// decision depends on a prefetch.
#pragma once

#include "runtime/policy/ArcBalance.h"
#include "runtime/policy/Eviction.h"
#include "runtime/policy/PassPlan.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// The numbers are the artifact's, as all numbers of rules.
enum class CacheSharing : uint8_t {
  kLayerQuotas = 0, // Each layer keeps within its own quota.
  kOnePool = 1,     // All layers compete for the sum of the quotas.
};

/// What a new prompt finds.
enum class PromptSurvival : uint8_t {
  kEverything = 0, // Experts in memory and their use; frequencies fade (fadeForPrompt).
  kContents = 1,   // The experts; their use is forgotten.
  kPins = 2,       // Only pinned experts.
};

struct CacheRules {
  EvictionPolicy eviction = EvictionPolicy::kLru;
  CacheSharing sharing = CacheSharing::kLayerQuotas;
  PromptSurvival survival = PromptSurvival::kEverything;
  friend bool operator==(const CacheRules &, const CacheRules &) = default;
};

/// What a layer pass wants: distinct experts of its layer, the most popular first.
struct PassDemand {
  std::span<const uint32_t> wanted;
  std::span<const uint32_t> uses = {}; // How many tokens want each; empty: one.
  uint32_t tokens = 1;                 // Of the layer pass; not 0.
};

struct DirectoryEntry {
  ExpertHistory history;
  uint32_t pages = 0;
  uint32_t layer = 0;
  uint16_t pins = 0;
  ArcList arcList = ArcList::kForgotten;
  bool isHeld = false;     // Has pages: is in memory or on its way.
  bool isPrefetch = false; // Has pages of a prefetch; never both.
  bool isWanted = false;   // By the open layer pass.
  bool isKept = false;     // Of the open layer pass's wanted and unkept experts: stays after it.
};

/// Counted before it is built, so that building allocates each table once.
struct DirectorySize {
  size_t layers = 0;
  size_t experts = 0;
  size_t widestLayer = 0; // In experts.
};

/// Filled with addLayer and addExpert up to its size, then executed; allocates nothing after that.
/// One thread. Experts are named by ids: all experts of all layers, in order.
///
/// Invariants, where room was asked for first:
///  - outside layer passes the experts held in a layer have at most its quota of pages; with one
///    pool, all of them have at most the sum of the quotas; pinned ones leave room for the largest
///    record;
///  - prefetches have at most the staging pages, and during a layer pass together with what is held
///    of the executed layer's quota at most that quota and the staging pages: all pages are within
///    the pool at any time.
class CacheDirectory {
public:
  CacheDirectory(const CacheRules &rules, uint64_t stagingPages, const DirectorySize &size);

  void addLayer(uint64_t quotaPages, bool repeatsEveryStep = true);
  /// Of the layer that was added last.
  void addExpert(uint32_t pages);

  size_t layerCount() const { return layers.size(); }
  uint32_t expertsIn(uint32_t layer) const { return layers[layer].experts; }
  uint32_t idOf(uint32_t layer, uint32_t expert) const { return layers[layer].firstId + expert; }
  uint32_t expertOf(uint32_t id) const { return id - layers[entries[id].layer].firstId; }
  const DirectoryEntry &at(uint32_t id) const { return entries[id]; }
  const CacheRules &cacheRules() const { return rules; }
  uint64_t pagesHeld(uint32_t layer) const { return layers[layer].heldPages; }

  /// Opens a layer pass and decides. False, and nothing changed, if an expert is wanted that the
  /// layer does not have, or one twice.
  [[nodiscard]] bool beginPass(uint32_t layer, const PassDemand &demand);
  /// The experts held or wanted that do not stay.
  std::span<const uint32_t> unkept() const { return unkeptIds; }
  /// Whether the expert may be held now, with what the open layer pass has on top of its quota.
  bool hasRoomFor(uint32_t id) const;
  void hold(uint32_t id);
  void drop(uint32_t id);
  void endPass();

  /// Whether the prefetch may have pages now: during a layer pass what its demand leaves of the
  /// staging pages, so that a caller begins prefetches when all of the demand is held. Never in a
  /// layer with a record larger than the staging pages: an expert that passes through could not do
  /// so beside useful ones that stay.
  bool hasRoomForPrefetch(uint32_t id) const;
  /// Of an expert that is neither held nor a prefetch.
  void holdPrefetch(uint32_t id);
  void dropPrefetch(uint32_t id);
  /// Whether an expert that the open layer pass does not keep may go on as a prefetch with the
  /// pages that it has: they are within the staging pages, and the demand has room beside all
  /// prefetches.
  bool canRetain(uint32_t id) const;
  void retainAsPrefetch(uint32_t id);
  /// The open layer pass wants it: its pages are the layer pass's now, and the expert is held.
  void claimPrefetch(uint32_t id);
  /// Its read has failed: it is to be held anew, as if it had never been prefetched.
  void disownPrefetch(uint32_t id);
  uint64_t prefetchPages() const { return heldPrefetchPages; }
  /// Whether a layer can be prefetched at all.
  bool isPrefetchable(uint32_t layer) const {
    return layers[layer].largestRecordPages <= stagingPages;
  }
  /// Whether all that the open layer pass wants has room at once beside prefetches of so many
  /// pages.
  bool demandFitsBeside(uint64_t prefetchedPages) const;

  /// Keeps an expert from its next use on, until unpin; calls nest. Not during a layer pass. False,
  /// and nothing changed, if more pages were pinned than pinLimitPages.
  [[nodiscard]] bool pin(uint32_t id);
  void unpin(uint32_t id);
  /// Of all experts that share pages with this one.
  uint64_t pinLimitPages(uint32_t id) const;
  uint64_t pinnedPages(uint32_t id) const { return quotaOf(id).pinnedPages; }

  /// What a layer is filled with at the start: of the demand, in its order, the experts that fit
  /// beside what is held, with their uses. False for a demand that beginPass refuses.
  [[nodiscard]] bool selectFitting(uint32_t layer, const PassDemand &demand,
                                   std::vector<uint32_t> &fitting,
                                   std::vector<uint32_t> &uses) const;
  /// Not during a layer pass. Forgets or fades what is remembered of the use of all experts, as the
  /// rules say; what is held stays.
  void beginPrompt();

private:
  struct Layer {
    uint32_t firstId = 0;
    uint32_t experts = 0;
    uint32_t turn = 0;
    uint32_t place = 0;   // Among those that come round again.
    uint32_t quota = 0;   // In quotas.
    uint32_t ordered = 0; // Experts in leavingOrder.
    bool repeatsEveryStep = true;
    uint64_t largestRecordPages = 0;
    uint64_t heldPages = 0;
  };
  /// Pages that the layers [firstLayer, endLayer) share.
  struct PageQuota {
    uint32_t firstLayer = 0, endLayer = 0;
    uint64_t pages = 0;
    uint64_t heldPages = 0;
    uint64_t pinnedPages = 0;
    uint64_t largestRecordPages = 0;
    ArcBalance arc;
  };

  const PageQuota &quotaOf(uint32_t id) const { return quotas[layers[entries[id].layer].quota]; }
  PageQuota &quotaOf(uint32_t id) { return quotas[layers[entries[id].layer].quota]; }
  bool isExecutable(uint32_t layer, std::span<const uint32_t> wanted);
  void remember(uint32_t layer, const PassDemand &demand);
  void decide(uint32_t layer);
  LayerDistance distanceTo(uint32_t layer) const;
  void addCandidate(uint32_t id, const LayerDistance &distance);
  uint64_t addCandidates(uint32_t layer, uint64_t leavingPages);
  void orderLayer(uint32_t layer);
  void forgetGhosts(PageQuota &quota);
  void forgetUse();
  void takePages(uint32_t id);

  CacheRules rules;
  uint64_t stagingPages;
  std::vector<Layer> layers;
  std::vector<PageQuota> quotas;
  std::vector<DirectoryEntry> entries;
  uint32_t cycleLayers = 0; // Layers that come round again.
  uint64_t passes = 0;      // The logical clock.
  uint32_t passLayer = 0;
  bool isPassOpen = false;
  uint64_t heldPrefetchPages = 0;
  std::vector<uint32_t> wantedIds;
  std::vector<uint32_t> unkeptIds;
  std::vector<PassCandidate> candidates;
  /// With one pool: from each layer's first id on the experts that it held after its last turn, in
  /// the order in which they leave. Until its next turn that order does not change but by
  /// beginPrompt, whatever the policy, so that other layers' executes look at the first few of them
  /// alone.
  std::vector<uint32_t> leavingOrder;
};

} // namespace moert
