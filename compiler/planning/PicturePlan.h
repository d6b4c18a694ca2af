// The numbers of a plan's picture: its trace replayed on its device, expert by expert and, for one
// token, in time.
#pragma once

#include "compiler/picture/PlanPicture.h"
#include "compiler/planning/Replan.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

/// Pictures the first plan, which is the largest; `fileName` names the artifact in the title. An
/// error without a trace or a device, naming what is missing.
moert::Result<PlanPicture> picturePlan(const PlannedArtifact &planned, const std::string &fileName);

/// Writes the picture to a file, atomically.
moert::Status writePlanPicture(const PlannedArtifact &planned, const std::string &fileName,
                               const std::string &outputPath);

} // namespace moec
