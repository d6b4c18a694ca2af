// What the parts of a probe share: the clock, the wish to stop, how far it has come; and how a
// number is made of several measurements, since machines are noisy.
#pragma once

#include "runtime/base/Clock.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace moert::probe {

/// How a number was got; the loader of device profiles knows these words.
enum class Origin : uint8_t { kMeasured, kDerived };

struct Number {
  double value = 0;
  Origin origin = Origin::kMeasured;
};

/// The middle one; of an even number of them the lower of the two. Not empty.
double median(std::vector<double> values);

/// Of rates that were measured one after the other, what a machine keeps up whose rate moves: units
/// by the mean time of one, without the fastest and the slowest fifth of them. Not empty.
double steadyRate(std::vector<double> rates);

/// The parts take turns in rounds, so that a disturbance of some seconds spoils one measurement of
/// each and not all of one: how fast the disk of a shared machine is moves within seconds.
constexpr uint32_t kRounds = 5;

/// Borrowed by all parts of one probe; one thread uses it.
class ProbeRun {
public:
  /// What is going on, and how much of the planned time is behind us.
  using Report = std::function<void(std::string_view step, uint64_t doneNs, uint64_t totalNs)>;

  ProbeRun(Clock clock, std::function<bool()> isStopped, Report progress)
      : now(clock), stopped(std::move(isStopped)), report(std::move(progress)) {}

  uint64_t nowNs() const { return now(); }

  /// The time that everything together is planned to take.
  void plan(uint64_t allNs) { totalNs = allNs; }

  /// Says that a step which was planned to take so long begins. An error if the user wants to stop.
  Status begin(std::string_view step, uint64_t plannedNs);

private:
  Clock now;
  std::function<bool()> stopped;
  Report report;
  uint64_t totalNs = 0;
  uint64_t begunNs = 0; // Planned time of the steps that were begun.
};

} // namespace moert::probe
