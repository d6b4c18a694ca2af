// The progress of a command of several steps: the number of each step, and one remaining time for
// all that is left. The steps and what each is expected to take are planned beforehand; while a
// step runs, its own rate replaces the plan, and what is later is planned at the pace so far.
#pragma once

#include "compiler/session/Progress.h"
#include "runtime/base/Clock.h"

#include <optional>
#include <string>
#include <vector>

namespace moec {

struct PlannedStep {
  std::string label;             // As its begin() has it.
  std::optional<double> seconds; // Absent: not known yet.
  double chance = 1;             // That it comes.
};

/// Passes steps on to another progress, which it borrows and which may be absent. One thread.
class WholeProgress final : public Progress {
public:
  WholeProgress(Progress *told, std::vector<PlannedStep> planned,
                moert::Clock clock = moert::monotonicNs)
      : shown(told), steps(std::move(planned)), now(clock) {}

  /// Replaces what a step that has not ended is expected to take.
  void expect(std::string_view label, double seconds);
  /// Replaces the chance of the steps that have not begun and may not come.
  void foresee(double chance);
  /// The expected seconds of all steps that have not begun; absent if one step's are not known.
  /// chance: in place of that of steps that may not come.
  std::optional<double> secondsLeft(std::optional<double> chance = {}) const;
  /// The steps that come.
  size_t stepCount() const;

  void begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) override;
  void beginCounting(std::string_view step, std::string_view units, uint64_t each, uint64_t total,
                     uint64_t done) override;
  void advanceTo(uint64_t done) override { move(done, false); }
  void restoreTo(uint64_t done) override { move(done, true); }
  void expectStepEnd(double seconds) override { stepLeft = seconds; }
  void end() override;

private:
  std::string enter(std::string_view step, uint64_t total, uint64_t done);
  void move(uint64_t done, bool isRestored);
  void leave();
  double leftOfStep(uint64_t done) const;
  /// The plan's part for so much of the step's total.
  double plannedOfStep(uint64_t counts) const;
  /// What a planned second takes, by the steps so far.
  double pace() const;
  bool tellsPace() const;

  Progress *shown;
  std::vector<PlannedStep> steps;
  moert::Clock now;
  size_t next = 0;      // The first step that has not begun.
  bool isKnown = false; // The current step is planned: steps[next - 1].
  uint64_t startNs = 0, startDone = 0, stepTotal = 0, lastNs = 0, lastDone = 0;
  std::optional<double> stepLeft;           // From who runs the step.
  double plannedBefore = 0, tookBefore = 0; // Seconds of the steps that ended.
};

} // namespace moec
