// Widths weighed by time: what a token takes with an assignment of widths on a device within a
// budget, and what each option of each item adds to it. With that the knapsack of bytes becomes one
// of seconds.
//
// A byte costs time in three ways: it is read whenever its expert is wanted and not there; it keeps
// other bytes out of the cache while its expert is there; it is multiplied. An expert that is
// seldom wanted, and one that always stays in a cache which has room, cost next to nothing. All of
// it changes with the widths themselves, so weights hold near the assignment that they were taken
// at: they are taken again where they lead, and the replay of the whole decides.
#pragma once

#include "compiler/plan/MarginalTimes.h"
#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/PlanRule.h"
#include "compiler/plan/WidthProblem.h"

#include <atomic>
#include <optional>
#include <string>
#include <vector>

namespace moec {

/// What widths take in time. Borrowed by a search; one thread. The same assignment takes the same.
class WidthTimes {
public:
  virtual ~WidthTimes() = default;
  /// To be called once, first: with an assignment that is likely enough for a plan to be made for
  /// it, which all others are then held against. False: the budget does not hold it, and nothing
  /// has begun.
  virtual moert::Result<bool> begin(const WidthAssignment &likely) = 0;
  /// A token's expected time; infinite where the budget does not hold the assignment.
  virtual moert::Result<double> tokenNs(const WidthAssignment &assignment) = 0;
  /// [item][option]: the option's part of a token's time, the other items being as assigned.
  /// Refuses an assignment that the budget does not hold.
  virtual moert::Result<std::vector<std::vector<double>>>
  optionNs(const WidthAssignment &assignment) = 0;
};

/// An option as the replay needs to know it.
struct TimedOption {
  uint64_t bytes = 0;   // An expert's record, or resident weights.
  double computeNs = 0; // For an expert, once; for resident weights, per token.
  double checkNs = 0;   // For an expert that was read.
};

/// Parallel to a WidthItem.
struct TimedItem {
  struct Place {
    uint32_t layer = 0, expert = 0; // In the trace.
  };
  std::optional<Place> expert; // Absent: resident weights, whose bytes the cache does not get.
  std::vector<TimedOption> options;
};

/// Where problems of assignments come from. Borrowed; one thread.
class WidthPlanning {
public:
  virtual ~WidthPlanning() = default;
  /// As WidthTimes::begin().
  virtual moert::Result<bool> begin(const WidthAssignment &likely) = 0;
  virtual const std::vector<TimedItem> &items() const = 0;
  /// What it borrows holds until the next call. Nothing: the budget does not hold the assignment.
  virtual moert::Result<std::optional<PlanProblem>>
  problemOf(const WidthAssignment &assignment) = 0;
};

/// By replaying the trace with a preset's plan; `auto` is searched for once, with the likely
/// assignment, and its recipe stands for all others. Borrows the planning and the flag: once `stop`
/// is set, every call ends soon, with kInterrupted.
class ReplayedWidths : public WidthTimes {
public:
  ReplayedWidths(WidthPlanning &planned, Preset preset, uint32_t threadCount,
                 const std::atomic<bool> *stopFlag = nullptr)
      : planning(planned), rule{preset, {}}, threads(threadCount), stop(stopFlag) {}

  moert::Result<bool> begin(const WidthAssignment &likely) override;
  moert::Result<double> tokenNs(const WidthAssignment &assignment) override;
  moert::Result<std::vector<std::vector<double>>>
  optionNs(const WidthAssignment &assignment) override;

private:
  moert::Status checkStop() const;

  WidthPlanning &planning;
  PlanRule rule;
  uint32_t threads;
  const std::atomic<bool> *stop;
};

/// The knapsack with times for costs. Begins with the one of bytes; weights are those there, then
/// the mean of all that were taken, for a step too far is followed by one back. Of all assignments
/// on the way, the first included, the one whose replay takes the least time. The times have begun.
moert::Result<WidthAssignment> solveInSeconds(const WidthProblem &problem, WidthTimes &times);

} // namespace moec
