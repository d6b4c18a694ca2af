// Applies a plan's miss rule to the choice of a router, before the experts are demanded. An engine
// without such a rule has none.
#pragma once

#include "runtime/engine/ExpertStore.h"
#include "runtime/engine/Router.h"
#include "runtime/engine/Step.h"
#include "runtime/policy/MissPolicy.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace moert {

/// Room for the decisions of one layer; sized once, for the widest, and for so many rows.
class MissDecisions {
public:
  /// decodesBatches: batches of rows are decoded, each row as if it were alone.
  MissDecisions(const Artifact &artifact, uint64_t rows, bool decodesBatches);

  const MissRule &rule() const { return missRule; }
  void setRule(const MissRule &rule) { missRule = rule; }

  /// Where batches are decoded: the plan's cache as it would be after each token, without bytes.
  /// The cache itself then only reads what the rows of a batch demand together.
  void decodeFrom(const CacheMachine &machine);
  /// Null where no batches are decoded.
  CacheMachine *decoded() const { return decodedCache.get(); }

  /// Before the rows of a route: which experts count as resident, and that none is demanded.
  void beginLayer(ExpertStore &experts, uint32_t moeLayer);
  /// Replaces the router's choice for a row by the experts that take part, with their weights.
  /// probabilities: of the row, by the router.
  void decide(Step &step, ExpertStore &experts, const RouteInstruction &route, const Router &router,
              uint32_t row, const float *probabilities);
  /// Before the experts of a chunk whose prompt is lowered.
  void beginPromptLayer() { lowered = skipped = substituted = 0; }

  /// Per row: how many experts the last route gave it.
  std::span<const uint32_t> ranksTaken() const { return ranks; }
  /// The slices of each wanted expert in the order of the demand: what the rows demand of it, or,
  /// of a prompt's chunk, what its popularity leaves of the planned ones.
  std::span<const uint16_t> slicesOf(const Step &step, const MoeLayerTables &layer,
                                     std::span<const uint32_t> wanted);
  /// [row * topK + rank] slices that a rank of a decoded batch is computed with.
  std::span<const uint16_t> rankSlices() const { return slicesOfRanks; }
  /// What the layer passes of a decoded batch's rows counted.
  const CacheCounts &rowCounts() const { return countsOfRows; }

  void countLowered(uint32_t pairs) { lowered += pairs; }
  /// Since the layer's route: ranks of its rows, or experts of a prompt's chunk.
  void addTo(LayerProfile &profile) const;

  /// Bytes of it for so many rows that are decoded as a batch.
  static uint64_t batchBytes(const Artifact &artifact, uint64_t rows);

private:
  void countResident(const CacheMachine &machine, uint32_t firstId, uint32_t experts);
  /// Executes the layer pass that the row would have by itself.
  void decodeRow(uint32_t cachedLayer, uint64_t firstRank, const TakenExperts &taken);

  MissRule missRule;
  std::unique_ptr<CacheMachine> decodedCache;
  std::vector<float> likelihoods;     // One row.
  std::vector<uint16_t> resident;     // Per expert: slices that count as in memory.
  std::vector<uint16_t> demanded;     // Per expert: the most slices that any row demands.
  std::vector<uint16_t> wantedSlices; // In the order of the layer pass's demand.
  std::vector<uint32_t> ranks;
  std::vector<int32_t> takenExperts; // For one row: topK.
  std::vector<uint16_t> takenSlices;
  // Decoded batches have the demand of one row in the order of experts, and all ranks.
  std::vector<uint32_t> rowWanted;
  std::vector<uint16_t> rowSlices, slicesOfRanks;
  CacheCounts countsOfRows;
  uint32_t lowered = 0, skipped = 0, substituted = 0;
};

} // namespace moert
