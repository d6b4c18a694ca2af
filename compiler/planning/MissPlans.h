// Plans with miss rules: each is decoded on texts beside the checkpoint at `source`, and carries
// the loss that was measured. With a target the loss has to be accepted first (docs/accuracy.md).
#pragma once

#include "compiler/plan/PresetRules.h"
#include "compiler/session/Session.h"
#include "runtime/base/Status.h"
#include "runtime/evaluation/EvaluationSet.h"
#include "runtime/policy/Plan.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec {

struct MissRequest {
  /// With a target from safe to lossy. Empty: those of the plans' presets.
  std::vector<moert::MissRule> rules;
  std::string referencePath;      // The same checkpoint at `source`.
  moert::EvaluationRequest texts; // A metric of windows, and texts of at least 20 documents.
  std::optional<double> target;   // The largest loss, that of the widths included.
  std::string acceptanceLogPath;  // For tests with a target; empty: the default.
  unsigned threads = 1;
};

/// Reads a rule as missRuleText() writes it; refuses any other text, with what was expected.
moert::Result<moert::MissRule> parseMissRule(const std::string &text);

/// Refuses a request that cannot be measured, before anything slow begins.
moert::Status checkMissRequest(const MissRequest &request, std::span<const Preset> presets);

/// Gives the plans of an artifact their rules. Without a target each plan becomes one for each
/// rule, in their order. With one, the rules are tested in their order until the first that fails,
/// and the plan gets the last one that passed; if none did it waits, and a reason says so.
/// Forecasts of plans with a rule are removed: they are made for waiting.
moert::Result<std::vector<moert::Plan>> decideMissRules(const MissRequest &request,
                                                        const std::string &artifactPath,
                                                        const std::vector<moert::Plan> &plans,
                                                        const Session &session);

} // namespace moec
