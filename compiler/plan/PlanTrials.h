// Holds settings against each other: each is replayed in time on the trace's first steps. Several
// at once on the machine's cores; the same figures whatever the number of threads.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/TimedReplay.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// Borrows the problem.
class PlanTrials {
public:
  PlanTrials(const PlanProblem &planned, size_t traceSteps, uint32_t threadCount)
      : problem(planned), steps(traceSteps), threads(threadCount) {}

  /// Mean times of a decoded token, in the order of the settings; infinite for what verify()
  /// refuses.
  std::vector<double> measure(std::span<const PlanSettings> candidates);
  /// Whole results of as many steps. Of settings that verify() accepts.
  std::vector<TimedResult> replay(std::span<const PlanSettings> candidates, size_t traceSteps,
                                  bool keepsPlays = false);

  uint32_t replays() const { return replayCount; }

private:
  const PlanProblem &problem;
  size_t steps;
  uint32_t threads;
  uint32_t replayCount = 0;
};

} // namespace moec
