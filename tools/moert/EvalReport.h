// The results of an evaluation, for people and for programs.
#pragma once

#include "runtime/engine/SampleScore.h"
#include "tools/moert/LoadedModel.h"

#include <string>
#include <vector>

namespace moert::cli {

/// Borrows what was measured.
struct EvalReport {
  LossMetric metric;
  const std::vector<std::string> &texts; // Names of the files; SampleScore::text counts them.
  const std::vector<SampleScore> &samples;
  const char *sampleName; // "windows", "items"
  bool hasReference;
};

/// A table: a line per file and one for all; with a reference, loss and bound.
std::string reportText(const EvalReport &report);

/// metric, value and, with a reference, reference, loss, upper95, kl, top1; windows or items,
/// tokens; the same per file; then the machine. A loss that is not defined and a bound that there
/// is none of are null.
std::string reportJson(const EvalReport &report, const LoadedModel &artifact,
                       const LoadedModel *reference);

} // namespace moert::cli
