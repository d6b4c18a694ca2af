// Shows the progress of a long step and its remaining time on standard error: on a terminal as one
// line that is rewritten, elsewhere as a line now and then. Short steps show nothing.
#pragma once

#include "runtime/base/Clock.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace moert::cli {

/// Owned by the thread that runs the step. The destructor removes the line.
class ProgressLine {
public:
  using Write = std::function<void(std::string_view)>;
  /// "1.20 GiB of 3.40 GiB", "12 of 60 windows".
  using Describe = std::function<std::string(uint64_t done, uint64_t total)>;

  /// doneBefore: work of an earlier run, which does not count as speed.
  ProgressLine(std::string stepName, Describe describeProgress, uint64_t doneBefore = 0);
  /// For tests: with clock, writer and terminal replaced.
  ProgressLine(std::string stepName, Describe describeProgress, uint64_t doneBefore, Write writer,
               Clock clock, bool terminal);
  ~ProgressLine();
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;

  void update(uint64_t done, uint64_t total);
  /// The same where an earlier run did what is new in `done`: neither it nor the time since the
  /// last call counts as speed.
  void restore(uint64_t done, uint64_t total);
  /// From now on the line shows this as the time that is left, of the whole command.
  void leaveWhole(double seconds) { wholeSeconds = seconds; }

private:
  std::string step;
  Describe describe;
  uint64_t startDone; // Work of earlier runs.
  Write write;
  Clock now;
  bool isTerminal;
  uint64_t startNs;
  uint64_t lastShownNs;
  uint64_t lastDone, lastNs; // At the last call.
  uint64_t restoringNs = 0;  // Time that restoring took.
  std::optional<double> wholeSeconds;
  bool isShown = false;
};

/// A Describe function for byte counts.
std::string describeBytes(uint64_t done, uint64_t total);

} // namespace moert::cli
