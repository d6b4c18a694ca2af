// Replays a problem's trace with settings, in time: the cache is the runtime's own directory, the
// device is one processor and one disk. What the cache keeps and reads follows from the trace alone
// and equals CacheReplay's counts; times say when a read ends and how long computing waits for it.
//
// The processor does one thing after the other: what lies before a MoE layer, prefetches, then the
// layer's experts, those in memory first and the others as they arrive. Whenever the runtime would
// look at its reads (all the time between layer passes; at the beginning of a layer pass, before
// each expert and after it, at the end), finished ones are taken and new ones begin, as pages
// allow: those that the execute wants at once, up to kMostReads; prefetches only when none of these
// is left to begin, kMostPrefetchReads of them at a time. A prefetch that its router cancelled
// gives its pages back, at once, or when its read ends, which keeps the disk busy until then.
#pragma once

#include "compiler/plan/PlanProblem.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moec {

/// Sums over executes: of the whole trace's decode steps, of its other steps, or of one layer pass.
struct TimedCounts {
  ReplayCounts cache; // A prefetch counts as cancelled when its pages are given back.
  uint64_t ready = 0; // Wanted experts whose bytes were there when the layer pass began: hits, and
                      // prefetches that had arrived.
  uint64_t stalled = 0; // Wanted experts that were waited for, with no other one ready.
  double computeNs = 0; // The processor was busy, checks and prefetches included.
  double waitNs = 0;    // It waited for a read.
  TimedCounts &operator+=(const TimedCounts &other);
};

/// One turn of a layer.
struct TimedPass {
  TimedCounts counts;
  double beginNs = 0, endNs = 0; // Since the replay's begin; the layer's router has spoken.
};

struct TimedResult {
  TimedCounts decode, prefill; // Of steps of one token, and of others.
  std::vector<double> tokenNs; // Of each decode step.
  uint64_t prefillTokens = 0;
  double prefillNs = 0;
  double diskBusyNs = 0;
  uint64_t startBytes = 0;
  std::vector<TimedPass> passes; // If they were asked for.
  /// Per layer: experts in memory, or on their way there, before the first step that counts.
  std::vector<std::vector<uint32_t>> heldBefore;

  /// Of decode steps from the one to the other; 0 where there are none.
  double meanNs(size_t begin = 0, size_t end = SIZE_MAX) const;
  /// The smallest time that this fraction of the decode steps do not exceed; 0 where there are
  /// none.
  double quantileNs(double fraction) const;
};

struct TimedOptions {
  size_t steps = SIZE_MAX; // Of the trace, at most.
  /// The first step that counts. Those before it fill the cache and are in no figure.
  size_t fromStep = 0;
  bool keepsPasses = false;
};

/// Reads under way at once, as the runtime's engine has them; of prefetches
/// moert::kMostPrefetchReads.
constexpr size_t kMostReads = 16;

/// Replays the problem, which check() accepts, with settings that verify() accepts; refuses others
/// as it does, without looking at the whole trace again.
moert::Result<TimedResult> replayInTime(const PlanProblem &problem, const PlanSettings &settings,
                                        const TimedOptions &options = {});

} // namespace moec
