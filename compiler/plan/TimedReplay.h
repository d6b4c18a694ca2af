// Replays a problem's trace with settings, in time: the cache is the runtime's own CacheMachine,
// the device is one processor and one disk. What the cache keeps and reads follows from the trace
// alone and equals CacheReplay's counts; times are when a read ends and how long computing waits
// for it.
//
// Decode steps demand what the settings' miss rule makes of the trace's routes (TracedMisses.h). An
// expert is computed and checked with the slices that are there.
//
// The processor does one thing after the other: the operations before a MoE layer, prefetches, then
// the layer's experts, those in memory first and the others as they arrive. Whenever the runtime
// would poll its reads (all the time between layer passes; at the beginning of a layer pass, before
// each expert and after it, at the end), completed ones are taken and the machine's next actions
// are carried out. The read of a cancelled prefetch keeps the disk busy until it ends.
#pragma once

#include "compiler/plan/PlanProblem.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moec {

/// Sums over layer passes: of all decode steps of a trace, of its other steps, or of one layer
/// pass.
struct TimedCounts {
  moert::CacheCounts cache;
  MissCounts misses; // What a miss rule changed.
  /// The sum over layer passes of TracedMisses::displacedWeight().
  double displacedWeight = 0;
  double computeNs = 0; // The processor was busy, checks and prefetches included.
  double waitNs = 0;    // The processor waited for a read.
  TimedCounts &operator+=(const TimedCounts &other);
};

/// One turn of a layer.
struct TimedPass {
  TimedCounts counts;
  double beginNs = 0, endNs = 0; // From the end of the layer's router on; since the replay's begin.
};

struct TimedResult {
  TimedCounts decode, prefill; // Sums of the steps of one token, and of the others.
  std::vector<double> tokenNs; // Time of each decode step.
  uint64_t prefillTokens = 0;
  double prefillNs = 0;
  double diskBusyNs = 0;
  uint64_t startBytes = 0;
  uint64_t forbiddenEvents = 0;  // As CacheDirectory counts them: none.
  std::vector<TimedPass> passes; // If they were asked for.
  /// Per layer: experts in memory, or on their way there, before the first step that counts.
  std::vector<std::vector<uint32_t>> heldBefore;

  /// The mean of the decode steps from `begin` to `end`; 0 where there are none.
  double meanNs(size_t begin = 0, size_t end = SIZE_MAX) const;
  /// The smallest time that this fraction of the decode steps do not exceed; 0 where there are
  /// none.
  double quantileNs(double fraction) const;
};

struct TimedOptions {
  size_t steps = SIZE_MAX; // At most so many steps of the trace.
  /// The first step that counts. Those before it fill the cache and are in no figure.
  size_t fromStep = 0;
  bool keepsPasses = false;
};

/// Replays the problem, which check() accepts, with settings that verify() accepts; refuses others
/// as it does, without looking at the whole trace again.
moert::Result<TimedResult> replayInTime(const PlanProblem &problem, const PlanSettings &settings,
                                        const TimedOptions &options = {});

} // namespace moec
