// Planning problems for artifacts that do not exist yet; a search for widths gets its times from
// them.
#pragma once

#include "compiler/accuracy/PooledArtifacts.h"
#include "compiler/plan/PresetRules.h"
#include "compiler/plan/WidthTimes.h"
#include "compiler/planning/PlanningSession.h"
#include "compiler/profile/Learned.h"

#include <optional>
#include <string>
#include <vector>

namespace moec {

/// One budget and preset on one device. A budget relative to the experts' bytes is computed for
/// each assignment, as in its artifact. An option's cost is taken with an unchanged pool, so that
/// no option is stored only because it raises the relative budget.
///
/// Borrows the artifacts, the results of calibration and the device. One thread.
class ArtifactPlanning : public WidthPlanning {
public:
  ArtifactPlanning(const PooledArtifacts &made, const Learned &known, const DeviceProfile &on,
                   std::string givenBudget, Preset planned)
      : artifacts(made), learned(known), device(on), budget(std::move(givenBudget)),
        preset(planned) {}

  moert::Result<bool> begin(const WidthAssignment &likely) override;
  const std::vector<TimedItem> &items() const override { return timedItems; }
  moert::Result<std::optional<PlanProblem>> problemOf(const WidthAssignment &assignment) override;

private:
  /// The artifact with its layout. Refuses, as the passes do, artifacts that exceed a budget.
  moert::Result<moert::Artifact> artifactOf(const WidthAssignment &assignment,
                                            const std::vector<std::string> &budgets) const;
  /// nullopt if the budget does not hold it.
  moert::Result<std::optional<moert::Artifact>>
  artifactWithinBudget(const WidthAssignment &assignment) const;
  const moert::Plan &planOf(const moert::Artifact &artifact) const;
  StepCosts costsOf(const moert::Artifact &artifact) const;
  moert::Status timeExperts(WidthAssignment assignment);
  moert::Status timeResidents(const WidthAssignment &assignment);

  const PooledArtifacts &artifacts;
  const Learned &learned;
  const DeviceProfile &device;
  std::string budget;
  Preset preset;
  std::vector<TimedItem> timedItems;
  std::optional<KnownRouting> routing; // The same for all problems.
  std::optional<ModelFacts> facts;     // For the last problem.
  std::optional<PlanInputs> inputs;    // For the last problem.
};

} // namespace moec
