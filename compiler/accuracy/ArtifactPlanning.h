// Problems of plans for artifacts that are not there yet: what a search for widths is timed with.
#pragma once

#include "compiler/accuracy/PooledArtifacts.h"
#include "compiler/plan/PresetRules.h"
#include "compiler/plan/WidthTimes.h"
#include "compiler/planning/PlanInputs.h"
#include "compiler/planning/RefinePlans.h"

#include <optional>
#include <string>
#include <vector>

namespace moec {

/// One budget and preset on one device. A budget that is a share of the experts' bytes is one of
/// each assignment's own, as in the artifact that comes of it; what an option costs is taken with
/// the pool as it is, so that nothing is stored for the share's sake.
///
/// Borrows the artifacts and the basis, which has a trace and a device. One thread.
class ArtifactPlanning : public WidthPlanning {
public:
  ArtifactPlanning(const PooledArtifacts &made, const PlanBasis &known, std::string givenBudget,
                   Preset planned)
      : artifacts(made), basis(known), budget(std::move(givenBudget)), preset(planned) {}

  moert::Result<bool> begin(const WidthAssignment &likely) override;
  const std::vector<TimedItem> &items() const override { return timedItems; }
  moert::Result<std::optional<PlanProblem>> problemOf(const WidthAssignment &assignment) override;

private:
  /// Laid out. Refuses, as the passes do, what a budget does not hold.
  moert::Result<moert::Artifact> artifactOf(const WidthAssignment &assignment,
                                            const std::vector<std::string> &budgets) const;
  /// Nothing where the budget does not hold it.
  moert::Result<std::optional<moert::Artifact>>
  artifactWithinBudget(const WidthAssignment &assignment) const;
  const moert::Plan &planOf(const moert::Artifact &artifact) const;
  StepCosts costsOf(const moert::Artifact &artifact) const;
  moert::Status timeExperts(WidthAssignment assignment);
  moert::Status timeResidents(const WidthAssignment &assignment);

  const PooledArtifacts &artifacts;
  const PlanBasis &basis;
  std::string budget;
  Preset preset;
  std::vector<TimedItem> timedItems;
  std::optional<PlanInputs> inputs; // Of the last problem.
};

} // namespace moec
