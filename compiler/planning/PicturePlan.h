// The numbers of a plan's picture: its trace replayed on its device, expert by expert and, for one
// token, in time.
#pragma once

#include "compiler/picture/PlanPicture.h"
#include "compiler/planning/Replan.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

/// Of the first plan, the largest; `fileName` is what people call the artifact. Refuses where no
/// trace or no device is known, with what is missing.
moert::Result<PlanPicture> picturePlan(const PlannedArtifact &planned, const std::string &fileName);

/// Draws it to a file that is written whole or not at all.
moert::Status writePlanPicture(const PlannedArtifact &planned, const std::string &fileName,
                               const std::string &outputPath);

} // namespace moec
