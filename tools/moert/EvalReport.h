// The results of an evaluation, for people and for programs.
#pragma once

#include "runtime/engine/Evaluation.h"
#include "tools/moert/LoadedModel.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moert::cli {

/// As --metric spells it: perplexity, kl, top1.
std::string_view metricName(LossMetric metric);
std::optional<LossMetric> parseMetric(std::string_view name);

/// Borrows what was measured.
struct EvalReport {
  LossMetric metric;
  const std::vector<std::string> &texts; // Names; WindowScore::text counts them.
  const std::vector<WindowScore> &windows;
  bool hasReference;
};

/// A table: a line per text and one for all.
std::string reportText(const EvalReport &report);

/// metric, value and, with a reference, reference, loss, upper95 (where there are enough windows),
/// kl, top1; windows, tokens; the same per text; then the machine.
std::string reportJson(const EvalReport &report, const LoadedModel &artifact,
                       const LoadedModel *reference);

} // namespace moert::cli
