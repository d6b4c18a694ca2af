// What stays in memory after a layer was executed, decided as the layer pass begins: from what is
// in memory and what is demanded, never from the order in which reads arrive. A pure function,
// whose time grows with the candidates almost linearly: each is sorted a few times, and only those
// that leave are compared further.
#pragma once

#include "runtime/policy/Eviction.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moert {

/// Records that pass through while the rest stays: one that is computed, one that is being read.
/// More would read no faster, since a record is many requests by itself, and would push out experts
/// that are used again.
constexpr uint64_t kStreamedRecords = 2;

/// An expert that is in memory or demanded, or both. A demanded one has the lastUse and the rank of
/// the layer pass that begins. The upper slices of an expert may be a candidate of their own: they
/// are kept only if the expert is. A separate copy of high precision is a candidate like them
/// without one for the expert.
struct PassCandidate {
  EvictionCandidate use;
  uint64_t pages = 0;    // Without those of its upper slices, if these are a candidate.
  bool isReady = false;  // In memory.
  bool isWanted = false; // One of the two holds.
  bool isPinned = false; // Never evicted; pinned pages fit into limitPages - largestRecordPages.
  bool isKept = false;   // The answer.
  /// For adaptive replacement: it had been demanded before, and was still remembered.
  bool isUsedAgain = false;
};

/// The pages that may be held: between layer passes, and while this layer is executed.
struct PassLimits {
  uint64_t quotaPages = 0;
  uint64_t limitPages = 0;         // At least quotaPages and largestRecordPages.
  uint64_t largestRecordPages = 0; // In the layer.
  /// Pages of experts in memory that are no candidates: they always stay.
  uint64_t otherPages = 0;
  /// With a pool of their own for upper slices: its pages, which the experts do not have, and those
  /// of otherPages that are in it.
  std::optional<uint64_t> upperPages = {};
  uint64_t otherUpperPages = 0;
  /// With adaptive replacement: experts demanded once leave first while they hold more than this.
  std::optional<uint64_t> onceTargetPages = {};
};

/// Room for the work of planPass(), reused from call to call.
struct PassScratch {
  static constexpr uint32_t kNoPart = UINT32_MAX;

  void reserve(size_t candidates) {
    order.reserve(candidates);
    otherPart.reserve(candidates);
  }

  std::vector<uint32_t> order;     // Some of the candidates, as indices.
  std::vector<uint32_t> otherPart; // For each: its expert, or that one's upper slices; kNoPart.
  uint64_t comparisons = 0;        // In all calls so far; for tests.
};

/// Sets isKept; the candidates are distinct, in any order. Allocates nothing once the scratch has
/// room for them. On completion:
///  - the kept experts fit into the quota, and those of each pool into the pool;
///  - the kept experts that are in memory, and those that are kept without the upper slices that
///    are demanded of them, leave room for every demanded one that is not kept as it is demanded to
///    pass through, one at a time if necessary;
///  - no demanded one that passes through would fit into what is left of the quota.
/// An expert larger than the quota is not kept: it would evict everything else and still not fit.
void planPass(const PassLimits &limits, std::span<PassCandidate> candidates, PassScratch &scratch);

} // namespace moert
