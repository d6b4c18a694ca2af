// The logical half of the expert cache: which experts hold pages, what is remembered of them, and
// which ones stay when a layer is played. Neither bytes nor reads nor time: the runtime's cache
// puts its pages beside this and the compiler's simulation counts with it, so that both see the
// same hits and the same evictions.
//
// A play: beginPlay decides; then experts are held and dropped as they are read and let go, in any
// order; then endPlay, when what is kept is held and what is unkept is not.
//
// Guessed experts are read for a play that has not begun. Their pages are counted apart: they are
// not held until their play has decided without them and they are adopted, so that no decision
// depends on a guess.
#pragma once

#include "runtime/policy/ArcBalance.h"
#include "runtime/policy/Eviction.h"
#include "runtime/policy/PlayPlan.h"

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
  kEverything = 0, // Experts in memory and their use; shares of tokens fade (fadeForPrompt).
  kContents = 1,   // The experts; their use is forgotten.
  kPins = 2,       // Only pinned experts.
};

struct CacheRules {
  EvictionPolicy eviction = EvictionPolicy::kLru;
  CacheSharing sharing = CacheSharing::kLayerQuotas;
  PromptSurvival survival = PromptSurvival::kEverything;
  friend bool operator==(const CacheRules &, const CacheRules &) = default;
};

/// What a play wants: distinct experts of its layer, the most popular first.
struct PlayDemand {
  std::span<const uint32_t> wanted;
  std::span<const uint32_t> uses = {}; // How many tokens want each; empty: one.
  uint32_t tokens = 1;                 // Of the play; not 0.
};

struct DirectoryEntry {
  ExpertHistory history;
  uint32_t pages = 0;
  uint32_t layer = 0;
  uint16_t pins = 0;
  ArcList arcList = ArcList::kForgotten;
  bool isHeld = false;   // Has pages: is in memory or on its way.
  bool isGuess = false;  // Has pages of a guess; never both.
  bool isWanted = false; // By the open play.
  bool isKept = false;   // Of the open play's wanted and unkept experts: stays after it.
};

/// Counted before it is built, so that building allocates each table once.
struct DirectorySize {
  size_t layers = 0;
  size_t experts = 0;
  size_t widestLayer = 0; // In experts.
};

/// Filled with addLayer and addExpert up to its size, then played; allocates nothing after that.
/// One thread. Experts are named by ids: all experts of all layers, in order.
///
/// Invariants, where room was asked for first:
///  - outside plays the experts held in a layer have at most its quota of pages; with one pool, all
///    of them have at most the sum of the quotas; pinned ones leave room for the largest record;
///  - guesses have at most the transit pages, and during a play together with what the played share
///    holds at most its quota and the transit pages: all pages are within the pool at any time.
class CacheDirectory {
public:
  CacheDirectory(const CacheRules &rules, uint64_t transitPages, const DirectorySize &size);

  void addLayer(uint64_t quotaPages, bool comesRoundAgain = true);
  /// Of the layer that was added last.
  void addExpert(uint32_t pages);

  size_t layerCount() const { return layers.size(); }
  uint32_t expertsIn(uint32_t layer) const { return layers[layer].experts; }
  uint32_t idOf(uint32_t layer, uint32_t expert) const { return layers[layer].firstId + expert; }
  uint32_t expertOf(uint32_t id) const { return id - layers[entries[id].layer].firstId; }
  const DirectoryEntry &at(uint32_t id) const { return entries[id]; }
  const CacheRules &cacheRules() const { return rules; }
  uint64_t pagesHeld(uint32_t layer) const { return layers[layer].heldPages; }

  /// Opens a play and decides. False, and nothing changed, if an expert is wanted that the layer
  /// does not have, or one twice.
  [[nodiscard]] bool beginPlay(uint32_t layer, const PlayDemand &demand);
  /// The experts held or wanted that do not stay.
  std::span<const uint32_t> unkept() const { return unkeptIds; }
  /// Whether the expert may be held now, with what the open play has on top of its quota.
  bool hasRoomFor(uint32_t id) const;
  void hold(uint32_t id);
  void drop(uint32_t id);
  void endPlay();

  /// Whether the guess may have pages now: during a play what its demand leaves of the transit
  /// pages, so that a caller begins guesses when all of the demand is held. Never in a layer with a
  /// record larger than the transit pages: an expert that passes through could not do so beside
  /// adopted ones that stay.
  bool hasRoomForGuess(uint32_t id) const;
  /// Of an expert that is neither held nor a guess.
  void holdGuess(uint32_t id);
  void dropGuess(uint32_t id);
  /// Whether an expert that the open play does not keep may go on as a guess with the pages that it
  /// has: they are within the transit pages, and the demand has room beside all guesses.
  bool canRetain(uint32_t id) const;
  void retainAsGuess(uint32_t id);
  /// The open play wants it: its pages are the play's now, and the expert is held.
  void adoptGuess(uint32_t id);
  /// Its read has failed: it is to be held anew, as if it had never been guessed.
  void disownGuess(uint32_t id);
  uint64_t guessPages() const { return heldGuessPages; }
  /// Whether a layer can be guessed at all.
  bool isGuessable(uint32_t layer) const {
    return layers[layer].largestRecordPages <= transitPages;
  }
  /// Whether all that the open play wants has room at once beside guesses of so many pages.
  bool demandFitsBeside(uint64_t guessedPages) const;

  /// Keeps an expert from its next use on, until unpin; calls nest. Not during a play. False, and
  /// nothing changed, if more pages were pinned than pinLimitPages.
  [[nodiscard]] bool pin(uint32_t id);
  void unpin(uint32_t id);
  /// Of all experts that share pages with this one.
  uint64_t pinLimitPages(uint32_t id) const;
  uint64_t pinnedPages(uint32_t id) const { return shareOf(id).pinnedPages; }

  /// What a layer is filled with at the start: of the demand, in its order, the experts that fit
  /// beside what is held, with their uses. False for a demand that beginPlay refuses.
  [[nodiscard]] bool selectFitting(uint32_t layer, const PlayDemand &demand,
                                   std::vector<uint32_t> &fitting,
                                   std::vector<uint32_t> &uses) const;
  /// Not during a play. Forgets or fades what is remembered of the use of all experts, as the rules
  /// say; what is held stays.
  void beginPrompt();

private:
  struct Layer {
    uint32_t firstId = 0;
    uint32_t experts = 0;
    uint32_t turn = 0;
    uint32_t place = 0; // Among those that come round again.
    uint32_t share = 0;
    uint32_t ordered = 0; // Experts in leavingOrder.
    bool comesRoundAgain = true;
    uint64_t largestRecordPages = 0;
    uint64_t heldPages = 0;
  };
  /// Pages that the layers [firstLayer, endLayer) share.
  struct Share {
    uint32_t firstLayer = 0, endLayer = 0;
    uint64_t quotaPages = 0;
    uint64_t heldPages = 0;
    uint64_t pinnedPages = 0;
    uint64_t largestRecordPages = 0;
    ArcBalance arc;
  };

  const Share &shareOf(uint32_t id) const { return shares[layers[entries[id].layer].share]; }
  Share &shareOf(uint32_t id) { return shares[layers[entries[id].layer].share]; }
  bool isPlayable(uint32_t layer, std::span<const uint32_t> wanted);
  void remember(uint32_t layer, const PlayDemand &demand);
  void decide(uint32_t layer);
  LayerDistance distanceTo(uint32_t layer) const;
  void addCandidate(uint32_t id, const LayerDistance &distance);
  uint64_t addCandidates(uint32_t layer, uint64_t leavingPages);
  void orderLayer(uint32_t layer);
  void forgetGhosts(Share &share);
  void forgetUse();
  void takePages(uint32_t id);

  CacheRules rules;
  uint64_t transitPages;
  std::vector<Layer> layers;
  std::vector<Share> shares;
  std::vector<DirectoryEntry> entries;
  uint32_t cycleLayers = 0; // Layers that come round again.
  uint64_t plays = 0;       // The logical clock.
  uint32_t playedLayer = 0;
  bool isPlaying = false;
  uint64_t heldGuessPages = 0;
  std::vector<uint32_t> wantedIds;
  std::vector<uint32_t> unkeptIds;
  std::vector<PlayCandidate> candidates;
  /// With one pool: from each layer's first id on the experts that it held after its last turn, in
  /// the order in which they leave. Until its next turn that order does not change but by
  /// beginPrompt, whatever the policy, so that other layers' plays look at the first few of them
  /// alone.
  std::vector<uint32_t> leavingOrder;
};

} // namespace moert
