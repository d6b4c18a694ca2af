// The results of an evaluation, as text and as JSON.
#pragma once

#include "runtime/evaluation/SampleScore.h"
#include "tools/moert/LoadedModel.h"

#include <string>
#include <vector>

namespace moert::cli {

/// Scores with those of the reference that the artifact stores (RecordedReference.h).
struct RecordedLoss {
  std::vector<SampleScore> samples; // The windows or items with recorded scores.
  double confidence = 0.95;         // Confidence of the accepted artifact's bound.
};

/// Borrows the measured samples and names.
struct EvalReport {
  LossMetric metric;
  const std::vector<std::string> &texts; // File names; SampleScore::text is an index into them.
  const std::vector<SampleScore> &samples;
  const char *sampleName; // "windows", "items"
  bool hasReference;
  const RecordedLoss *recorded = nullptr; // Only without a reference.
};

/// A table: a line per file and one for all files. If a reference or recorded losses are there,
/// then loss and bound, what at least 90% of units lose at most, and the unit that a heavy tail is
/// due to, if there is one.
std::string reportText(const EvalReport &report);

/// metric, value and, with a reference, reference, loss, upper_bound, confidence, units,
/// unit_spread, quantile with fraction and upper_bound, kl, top1; heavy_unit with text, unit from
/// 1, loss and part if there is one (LossBound.h); windows or items, tokens; the same per file;
/// then the machine. A loss that is not defined and a bound that does not exist are null. With
/// losses that the artifact carries: loss, upper_bound, confidence, units, unit_spread, and
/// loss_windows or loss_items, the number of samples with a loss; reference if that is all of them.
std::string reportJson(const EvalReport &report, const LoadedModel &artifact,
                       const LoadedModel *reference);

} // namespace moert::cli
