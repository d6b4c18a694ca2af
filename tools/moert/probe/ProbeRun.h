// State that the parts of a probe share: the clock, the interrupt flag and the progress; and robust
// averages, since machines are noisy.
#pragma once

#include "runtime/base/Clock.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace moert::probe {

/// How a number was obtained; the loader of device profiles reads the same words.
enum class Origin : uint8_t { kMeasured, kDerived };

struct Number {
  double value = 0;
  Origin origin = Origin::kMeasured;
};

/// The middle value; for an even number of values the lower of the two. Not empty.
double median(std::vector<double> values);

/// The rate that a machine with a varying rate sustains, from consecutive measurements: the
/// reciprocal of the mean time, without the fastest and the slowest fifth. Not empty.
double steadyRate(std::vector<double> rates);

/// The parts take turns in rounds, so that a disturbance of some seconds spoils one measurement of
/// each part and not all of one: the disk rate of a shared machine changes within seconds.
constexpr uint32_t kRounds = 5;

/// Borrowed by all parts of one probe; used by one thread.
class ProbeRun {
public:
  /// The current step, and how much of the planned time has passed.
  using Report = std::function<void(std::string_view step, uint64_t doneNs, uint64_t totalNs)>;

  ProbeRun(Clock clock, std::function<bool()> isStopped, Report progress)
      : now(clock), stopped(std::move(isStopped)), report(std::move(progress)) {}

  uint64_t nowNs() const { return now(); }

  /// Sets the planned time of the whole probe.
  void plan(uint64_t allNs) { totalNs = allNs; }

  /// Reports the start of a step with its planned time. An error if the user has interrupted.
  Status begin(std::string_view step, uint64_t plannedNs);

private:
  Clock now;
  std::function<bool()> stopped;
  Report report;
  uint64_t totalNs = 0;
  uint64_t begunNs = 0; // Planned time of the steps started so far.
};

} // namespace moert::probe
