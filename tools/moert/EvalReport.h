// The results of an evaluation, for people and for programs.
#pragma once

#include "runtime/evaluation/SampleScore.h"
#include "tools/moert/LoadedModel.h"

#include <string>
#include <vector>

namespace moert::cli {

/// Scores beside those of the reference that the artifact carries (RecordedReference.h).
struct RecordedLoss {
  std::vector<SampleScore> samples; // Of the windows or items that it has them for.
  uint32_t tests = 1; // The artifact's bound holds for so many acceptance tests together.

  double confidence() const { return 1 - 0.05 / tests; }
};

/// Borrows what was measured.
struct EvalReport {
  LossMetric metric;
  const std::vector<std::string> &texts; // Names of the files; SampleScore::text counts them.
  const std::vector<SampleScore> &samples;
  const char *sampleName; // "windows", "items"
  bool hasReference;
  const RecordedLoss *recorded = nullptr; // Without a reference alone.
};

/// A table: a line per file and one for all; with a reference, or losses of it that the artifact
/// carries, loss and bound.
std::string reportText(const EvalReport &report);

/// metric, value and, with a reference, reference, loss, upper95, kl, top1; windows or items,
/// tokens; the same per file; then the machine. A loss that is not defined and a bound that there
/// is none of are null. With losses that the artifact carries: loss, upper95, looks, the
/// acceptance tests that the bound is corrected for, and loss_windows or loss_items, of how many
/// they are; reference where these are all that the value is of.
std::string reportJson(const EvalReport &report, const LoadedModel &artifact,
                       const LoadedModel *reference);

} // namespace moert::cli
