// Interface through which long steps report their progress.
#pragma once

#include <cstdint>
#include <string_view>

namespace moec {

/// Called by the code that runs a step, from one thread at a time.
class Progress {
public:
  virtual ~Progress() = default;
  /// Begins a step of totalBytes, of which doneBytes were done earlier. Ends the previous step.
  virtual void begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) = 0;
  /// The same for a step that is not counted in bytes: `each` counts make one of `units`, as in "3
  /// of 48 layers".
  virtual void beginCounting(std::string_view step, std::string_view /*units*/, uint64_t /*each*/,
                             uint64_t total, uint64_t done) {
    begin(step, total, done);
  }
  /// Reports the bytes or counts done so far.
  virtual void advanceTo(uint64_t done) = 0;
  /// The same where an earlier run did what is new in `done`, so that it does not count as speed.
  virtual void restoreTo(uint64_t done) { advanceTo(done); }
  /// What is left of the whole command, and of the step, by who knows more than the step's rate.
  /// Call it before what is then shown.
  virtual void expectEnd(double /*seconds*/) {}
  virtual void expectStepEnd(double /*seconds*/) {}
  /// Ends the step, finished or not.
  virtual void end() = 0;
};

} // namespace moec
