// Holds settings against each other: each is replayed in time on the trace, several at once on the
// machine's cores; the same figures whatever the number of threads. What was measured once is
// remembered: a search comes back to the same settings again and again.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/TimedReplay.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace moec {

/// How much of a trace is decided on.
struct TraceParts {
  size_t steps = 0;         // Its first ones.
  size_t decided = 0;       // Those of them that decode.
  size_t settlingSteps = 0; // The first of the steps, in which caches fill up: they do not count.
  size_t settling = 0;      // Those of them that decode.
};

/// Means per decoded token, from a replay of the trace's part that plans are decided on.
struct Trial {
  double tokenNs = std::numeric_limits<double>::infinity(); // The mean.
  double displacedWeight = 0; // As TracedMisses counts it: the mean of the layers.
};

/// At most two thirds of the decode steps, and no more than a search has time for.
TraceParts partsOf(const RoutingTrace &trace);

/// Borrows the problem and the flag. One thread uses it.
class PlanTrials {
public:
  /// Once `stop` is set, nothing more is replayed, and no figure means anything.
  PlanTrials(const PlanProblem &planned, uint32_t threadNumber,
             const std::atomic<bool> *stopFlag = nullptr)
      : problem(planned), traceParts(partsOf(*planned.trace)), threads(threadNumber),
        stop(stopFlag) {}

  const TraceParts &parts() const { return traceParts; }
  uint32_t threadCount() const { return threads; }

  /// Mean times of a decoded token of the part that is decided on, in the order of the settings;
  /// infinite for what verify() refuses, as it does where a pool is too small.
  std::vector<double> measure(std::span<const PlanSettings> candidates);
  /// The same with what a miss rule changes.
  std::vector<Trial> tryAll(std::span<const PlanSettings> candidates);
  /// The same part, with its layer passes; without any once it is stopped. The settings are ones
  /// that verify() accepts.
  TimedResult replayPasses(const PlanSettings &settings);
  /// The whole trace; likewise.
  std::vector<TimedResult> replayAll(std::span<const PlanSettings> candidates);

  uint32_t replays() const { return replayCount; }
  bool isStopped() const { return stop && stop->load(std::memory_order_relaxed); }

private:
  struct Measured {
    PlanSettings settings;
    Trial trial;
  };
  size_t placeOf(const PlanSettings &candidate);
  template <typename Work>
  void replayEach(std::span<const PlanSettings *const> settings, const Work &work);

  const PlanProblem &problem;
  TraceParts traceParts;
  uint32_t threads;
  const std::atomic<bool> *stop;
  uint32_t replayCount = 0;
  std::vector<Measured> known; // No settings twice.
};

} // namespace moec
