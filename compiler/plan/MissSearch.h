// Miss rules for a plan: which of many are worth measuring, by their time in the timed replay.
//
// Only decoding measures the loss of a rule. So the search lists rules of one action as a ladder,
// from the one that changes least to the one that changes most, each faster than the one before.
// Whoever measures climbs a ladder until a rung loses too much. A ladder's order is fixed before
// anything is measured, as the acceptance contract asks (docs/accuracy.md).
//
// A rule changes what layers demand, so a rung has a cache of its own (MissTuning.h).
#pragma once

#include "compiler/plan/PlanProblem.h"

#include <atomic>
#include <cstdint>
#include <vector>

namespace moec {

/// Settings with a rule, and what is decided otherwise than without it.
struct MissRung {
  PlanSettings settings;
  double tokenNs = 0; // A token's mean time where plans are decided.
  /// The mean part of the routers' weight that the rule takes from the chosen experts there.
  double displacedWeight = 0;
  std::vector<moert::PlanReason> decisions; // Instead of those of the same names.
};

struct MissLadders {
  double waitingNs = 0; // With the settings without a rule.
  /// From safe to lossy by their displaced weights, and from slow to fast. No ladder is empty.
  std::vector<std::vector<MissRung>> ladders;
  uint32_t tried = 0; // Rules.
};

/// What a rule has to gain over waiting: a fraction of the time.
constexpr double kMinRungGain = 0.02;
/// A rung's least gain over the rung before it: a fraction of the time. Every rung is measured by
/// decoding all texts, which takes long, and smaller steps mean more rungs.
constexpr double kMinRungStep = 0.05;

/// For settings that wait. The ladder of substitutes ends with `mask`, where only experts in memory
/// take part: with SwapMoE's exchanges if the problem has the norms of experts, else with a start
/// that fills the cache. Refuses a problem without scores. Ends with kInterrupted once *stop is
/// set.
moert::Result<MissLadders> searchMisses(const PlanProblem &problem, const PlanSettings &waiting,
                                        uint32_t threads, const std::atomic<bool> *stop = nullptr);

} // namespace moec
