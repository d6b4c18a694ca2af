// The compiler's progress as lines on standard error.
#pragma once

#include "compiler/session/Session.h"
#include "tools/console/ProgressLine.h"

#include <optional>

namespace moec::cli {

/// Owned by one command, used by its thread.
class StepProgress final : public Progress {
public:
  void begin(std::string_view step, uint64_t totalBytes, uint64_t doneBytes) override;
  void beginCounting(std::string_view step, std::string_view units, uint64_t each, uint64_t total,
                     uint64_t done) override;
  void advanceTo(uint64_t done) override;
  void restoreTo(uint64_t done) override;
  void expectEnd(double seconds) override {
    if (line)
      line->leaveWhole(seconds);
  }
  void end() override { line.reset(); }

private:
  std::optional<moert::cli::ProgressLine> line; // The current step's.
  uint64_t total = 0;
};

/// A session that prints progress and lines to standard error and that Ctrl-C interrupts.
Session sessionWith(Progress &progress);

} // namespace moec::cli
