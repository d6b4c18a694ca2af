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
  void end() override { line.reset(); }

private:
  std::optional<moert::cli::ProgressLine> line; // Of the step that is under way.
  uint64_t total = 0;
};

/// Progress and lines go to standard error; Ctrl-C ends it.
Session sessionWith(Progress &progress);

} // namespace moec::cli
