// What a cache remembers of its experts, and which of them stay when a layer is executed. Which
// ones have pages is CacheHoldings', its base; both are the logical half of the expert cache.
// CacheMachine owns one and drives it, in a run and in every replay of one, so that all see the
// same hits and the same evictions.
//
// A layer pass: beginPass decides; then experts get pages and lose them, in any order; at endPass
// the kept ones are held and the others are not.
#pragma once

#include "runtime/policy/AdaptiveReplacement.h"
#include "runtime/policy/CacheHoldings.h"
#include "runtime/policy/Eviction.h"
#include "runtime/policy/PassPlan.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moert {

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

/// Filled with addLayer and addExpert, then used. For one thread.
class CacheDirectory : public CacheHoldings {
public:
  CacheDirectory(const CacheRules &rules, uint64_t stagingPages, const DirectorySize &size);

  void addLayer(uint64_t quotaPages, bool repeatsEveryStep = true);
  /// CacheHoldings::addExpert.
  template <typename... Record> void addExpert(const Record &...record) {
    CacheHoldings::addExpert(record...);
    addMemory();
  }

  /// The history of the demands for more than the base slices; only with base slices. Separate
  /// copies have one history.
  const ExpertHistory &upperHistory(uint32_t id) const { return upperHistories[id]; }
  /// Steps that have executed the layer, an open layer pass included.
  uint32_t turnsOf(uint32_t layer) const { return turns[layer].turn; }
  /// The layer's place among those that repeat every step, and how many these are.
  uint32_t placeOf(uint32_t layer) const { return turns[layer].place; }
  uint32_t layersInCycle() const { return cycleLayers; }
  bool repeatsEveryStep(uint32_t layer) const { return turns[layer].repeatsEveryStep; }
  /// Layer passes so far.
  uint64_t passesBegun() const { return passes; }
  /// Tokens of the last layer pass.
  uint32_t passTokens() const { return tokensOfPass; }
  /// Absent unless experts are evicted by it.
  const std::optional<AdaptiveReplacement> &adaptiveReplacement() const { return adaptive; }

  /// Opens a layer pass and decides what stays. Returns false, without side effects, for an unknown
  /// or duplicate expert.
  [[nodiscard]] bool beginPass(uint32_t layer, const PassDemand &demand);
  void endPass();
  /// Changes the unit's state by the table, and with it whose pages it has. Returns the new state.
  /// A forbidden event is an error of the caller: nothing changes, and it is counted.
  UnitState apply(uint32_t id, UnitEvent event);

  /// Outside layer passes: lists the experts of the layer that would have to leave so that this
  /// one, which is absent or a promotion, can stay: the least valuable ones that are not pinned.
  /// Returns false if there are not enough pages of experts that are together less valuable.
  [[nodiscard]] bool selectLeaving(uint32_t id, std::vector<uint32_t> &leavingIds) const;

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
  /// A layer in the cycle of the layers.
  struct LayerTurns {
    uint32_t turn = 0;
    uint32_t tokens = 0;  // Since the records began.
    uint32_t place = 0;   // Among the layers that repeat every step.
    uint32_t ordered = 0; // Entries in leavingOrder.
    bool repeatsEveryStep = true;
  };

  void addMemory();
  template <typename Change> void forEachHistory(uint32_t id, Change change) {
    change(entries[id].history);
    if (!upperHistories.empty())
      change(upperHistories[id]);
  }
  bool isExecutable(uint32_t layer, const PassDemand &demand);
  void remember(uint32_t layer, const PassDemand &demand);
  void addImportances(const Layer &layer, const PassDemand &demand);
  void decide(uint32_t layer);
  void takeAnswers();
  LayerDistance distanceTo(uint32_t layer) const;
  uint64_t addCandidate(uint32_t id, bool isUpper, const LayerDistance &distance);
  uint64_t addParts(uint32_t id, const LayerDistance &distance);
  uint64_t addCandidates(uint32_t layer, uint64_t leavingPages);
  void orderLayer(uint32_t layer);
  void forgetUse();
  void takeHeld(const CacheDirectory &before, QuotaGroup &group);

  std::vector<LayerTurns> turns;             // By layer.
  std::vector<ExpertHistory> upperHistories; // By id; empty without base slices.
  std::optional<AdaptiveReplacement> adaptive;
  uint32_t cycleLayers = 0; // Layers that repeat every step.
  uint64_t passes = 0;      // The logical clock.
  uint32_t tokensOfPass = 0;
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
  Leaving *leavingOrderOf(uint32_t layer) {
    return &leavingOrder[layers[layer].firstId * candidatesPerExpert()];
  }
  size_t candidatesPerExpert() const { return rules.baseSlices > 0 ? 2 : 1; }
};

} // namespace moert
