// The stage of a compilation to an accuracy target that searches widths: candidates become
// artifacts, which are measured beside the reference.
#pragma once

#include "compiler/accuracy/PlanMaterial.h"
#include "compiler/accuracy/PooledArtifacts.h"
#include "compiler/accuracy/SearchMaterial.h"
#include "compiler/plan/EstimateCheck.h"
#include "compiler/search/ArtifactJudge.h"

#include <optional>
#include <string>

namespace moec {

struct MeasuredSearch {
  WidthSearchOutcome outcome;
  AcceptanceScores acceptance; // Scores of the best assignment.
  uint64_t windowsEvaluated = 0;
  std::optional<EstimateCheck> estimates; // If they were asked for and the target is met.
};

/// times: null without a device or a budget. Candidates are in `directory`, as are the rows of
/// measurements, which a resumed search reuses.
moert::Result<MeasuredSearch> searchMeasured(const AccurateCompileRequest &request,
                                             const SearchMaterial &material,
                                             const AcceptanceLevels &levels,
                                             const PooledArtifacts &artifacts, ArtifactTimes *times,
                                             const std::string &referencePath,
                                             const std::string &directory, const Session &session);

} // namespace moec
