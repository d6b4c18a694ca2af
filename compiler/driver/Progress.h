// How far a long step has come, said to a person: one line with the remaining time, on standard
// error. On a terminal the line is rewritten in place, elsewhere a new one appears every few
// seconds, so that a log stays readable. A short step says nothing.
#pragma once

#include "runtime/base/Clock.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace moec {

/// Who does a long step tells it here. One thread at a time.
class Progress {
public:
  virtual ~Progress() = default;
  /// A step of so many bytes begins, of which some were done earlier; it ends the one before.
  virtual void begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) = 0;
  /// So many of them are done.
  virtual void advanceTo(uint64_t doneBytes) = 0;
  /// The step is over, done or not; what stood on the terminal goes.
  virtual void end() = 0;
};

/// For callers that do not want to hear.
class SilentProgress final : public Progress {
public:
  void begin(std::string_view, uint64_t, uint64_t) override {}
  void advanceTo(uint64_t) override {}
  void end() override {}
};

class ProgressLine final : public Progress {
public:
  using Write = std::function<void(std::string_view)>;

  /// On standard error.
  ProgressLine();
  /// With everything passed in.
  ProgressLine(Write output, moert::Clock clock, bool isTerminal);
  ~ProgressLine() override;

  void begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) override;
  void advanceTo(uint64_t doneBytes) override;
  void end() override;

private:
  std::string describe(uint64_t doneBytes, uint64_t elapsedNs) const;

  Write write;
  moert::Clock now;
  bool rewrites;
  std::string stepName;
  uint64_t total = 0;
  uint64_t startNs = 0, shownNs = 0;
  uint64_t startBytes = 0; // What was done when the clock started: a resumed step is not faster.
  bool isShown = false;
};

/// "45 s", "3 min 20 s", "2 h 5 min".
std::string formatDuration(uint64_t seconds);

} // namespace moec
