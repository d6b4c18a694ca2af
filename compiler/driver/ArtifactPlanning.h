// Problems of plans for artifacts that are not there yet: what a search for widths is timed with.
#pragma once

#include "compiler/driver/PlanInputs.h"
#include "compiler/driver/PooledArtifacts.h"
#include "compiler/driver/RefinePlans.h"
#include "compiler/plan/PresetRules.h"
#include "compiler/plan/WidthTimes.h"

#include <optional>
#include <string>
#include <vector>

namespace moec {

/// One budget and preset on one device. Borrows the artifacts and the basis, which has a trace and
/// a device. One thread.
class ArtifactPlanning : public WidthPlanning {
public:
  ArtifactPlanning(const PooledArtifacts &made, const PlanBasis &known, std::string givenBudget,
                   Preset planned)
      : artifacts(made), basis(known), budget(std::move(givenBudget)), preset(planned) {}

  /// A budget that is a share of the experts' bytes stands for the bytes that it is with these
  /// widths, those of resident weights and the cache's together: as a share it would be the larger
  /// the more bytes were wasted.
  moert::Result<bool> begin(const WidthAssignment &likely) override;
  const std::vector<TimedItem> &items() const override { return timedItems; }
  moert::Result<std::optional<PlanProblem>> problemOf(const WidthAssignment &assignment) override;

  /// That was compared within; 0 before begin().
  uint64_t budgetBytes() const { return bytes; }

private:
  /// Laid out. Refuses, as the passes do, what a budget does not hold.
  moert::Result<moert::Artifact> artifactOf(const WidthAssignment &assignment,
                                            const std::vector<std::string> &budgets) const;
  const moert::Plan &planOf(const moert::Artifact &artifact) const;
  StepCosts costsOf(const moert::Artifact &artifact) const;
  uint64_t poolPagesFor(const moert::Artifact &artifact) const;
  moert::Status timeExperts(WidthAssignment assignment);
  moert::Status timeResidents(const WidthAssignment &assignment);

  const PooledArtifacts &artifacts;
  const PlanBasis &basis;
  std::string budget;
  Preset preset;
  uint64_t bytes = 0;
  std::optional<uint64_t>
      sharedBytes; // Of resident weights and cache, where the budget is a share.
  std::vector<TimedItem> timedItems;
  std::optional<PlanInputs> inputs; // Of the last problem.
};

} // namespace moec
