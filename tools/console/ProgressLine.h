// How far a long step has come and how long it will still take, on standard error. On a terminal
// one line that is rewritten, elsewhere a line now and then; nothing at all where the step is
// short.
#pragma once

#include "runtime/base/Clock.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace moert::cli {

/// Owned by the thread that does the step. The line is removed at the end.
class ProgressLine {
public:
  using Write = std::function<void(std::string_view)>;
  /// "1.20 GiB of 3.40 GiB", "12 of 60 windows".
  using Describe = std::function<std::string(uint64_t done, uint64_t total)>;

  /// doneBefore: what an earlier run did, which does not count as speed.
  ProgressLine(std::string stepName, Describe describeProgress, uint64_t doneBefore = 0);
  /// With everything replaced, for tests.
  ProgressLine(std::string stepName, Describe describeProgress, uint64_t doneBefore, Write writer,
               Clock clock, bool terminal);
  ~ProgressLine();
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;

  void update(uint64_t done, uint64_t total);

private:
  std::string step;
  Describe describe;
  uint64_t startDone;
  Write write;
  Clock now;
  bool isTerminal;
  uint64_t startNs;
  uint64_t lastShownNs;
  bool isShown = false;
};

/// A ProgressLine::Describe.
std::string describeBytes(uint64_t done, uint64_t total);

/// "45 s", "3 min 20 s", "2 h 5 min".
std::string formatDuration(uint64_t seconds);

} // namespace moert::cli
