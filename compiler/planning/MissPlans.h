// Plans with miss rules: each is decoded on texts beside the checkpoint at `source`, and carries
// the loss that was measured. With a target the loss has to be accepted first (docs/accuracy.md).
#pragma once

#include "compiler/plan/PresetRules.h"
#include "compiler/planning/ReadTexts.h"
#include "compiler/search/AcceptanceTarget.h"
#include "compiler/session/Session.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"
#include "runtime/evaluation/EvaluationSet.h"
#include "runtime/policy/Plan.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moec {

struct MissRequest {
  /// With a target from safe to lossy. Empty: those of the plans' presets.
  std::vector<moert::MissRule> rules;
  bool isSearched = false;        // Rules are searched for, by their time; needs a target.
  std::string referencePath;      // The same checkpoint at `source`.
  moert::EvaluationRequest texts; // A metric of windows, and texts of at least 20 documents.
  AcceptanceTarget target;        // Losses include that of the widths.
  /// The texts of calibration and search, whose documents test nothing.
  std::vector<std::string> calibrationTexts;
  /// Texts that profile virtual experts for preset swapmoe; empty: its quotas are even.
  std::vector<std::string> profileFiles;
  std::string acceptanceLogPath; // For tests with a target; empty: the default.
  unsigned threads = 1;
};

/// Reads a rule as missRuleText() writes it; refuses any other text, with what was expected.
moert::Result<moert::MissRule> parseMissRule(const std::string &text);

/// Whether plans of these presets change the output, so that their losses are measured.
bool measuresLosses(const MissRequest &request, std::span<const Preset> presets);

/// Refuses a request that cannot be measured, before anything slow begins.
moert::Status checkMissRequest(const MissRequest &request, std::span<const Preset> presets);

/// A plan with a rule that is faster than the plan without, and its time where plans are decided.
struct LossyPlan {
  moert::Plan plan;
  double tokenNs = 0;
};

/// As MissLadders (compiler/plan/MissSearch.h), with plans.
struct LossyLadders {
  double waitingNs = 0;
  std::vector<std::vector<LossyPlan>> ladders;
  uint32_t tried = 0;
};

/// What is simulated of plans with miss rules.
struct MissSimulation {
  /// The forecast of a plan with a miss rule; absent where it is unknown.
  std::function<moert::Result<std::optional<moert::Forecast>>(const moert::Plan &)> forecast;
  /// For a plan that waits. Refuses one that cannot be simulated.
  std::function<moert::Result<LossyLadders>(const moert::Plan &)> search;
};

/// Gives the plans of an artifact their rules. Without a target (AcceptanceTarget::isGiven()) each
/// plan becomes one for each rule, in their order. With one, the rules are tested in their order
/// until the first that fails, and the plan gets the last one that passed; if none did it waits,
/// and a reason says so. If rules are searched for, the ladders of the simulation are climbed so,
/// and the plan gets the fastest rung that passed, unless its forecast is not kMinRungGain faster
/// than the plan's that waits. Plans with a rule get a forecast with it. For a request that
/// measures losses; tests leave out the units that overlap what was read, and `work` keeps what was
/// measured.
moert::Result<std::vector<moert::Plan>>
decideMissRules(const MissRequest &request, const std::string &artifactPath,
                const std::vector<moert::Plan> &plans, const MissSimulation &simulation,
                const ReadTexts &read, const WorkDirectory &work, const Session &session);

/// Without slices that are held alone there is nothing for a pool of upper slices.
void dropUnusedPool(moert::Plan &plan);

} // namespace moec
