// The results of an evaluation, for people and for programs.
#pragma once

#include "runtime/engine/Evaluation.h"
#include "tools/moert/LoadedModel.h"

#include <string>
#include <vector>

namespace moert::cli {

/// Borrows what was measured.
struct EvalReport {
  LossMetric metric;
  const std::vector<std::string> &texts; // Names; SampleScore::text counts them.
  const std::vector<SampleScore> &windows;
  bool hasReference;
};

/// A table: a line per text and one for all.
std::string reportText(const EvalReport &report);

/// metric, value and, with a reference, reference, loss, upper95 (where there are enough windows),
/// kl, top1; windows, tokens; the same per text; then the machine.
std::string reportJson(const EvalReport &report, const LoadedModel &artifact,
                       const LoadedModel *reference);

} // namespace moert::cli
