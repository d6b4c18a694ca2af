// Accuracy as a contract: compiles a checkpoint to an artifact whose measured loss is within the
// allowed loss, with the fewest bytes or, given a device and a budget, the least expected time per
// token.
//
//   reference -> calibration profile -> pool of quantized experts -> search -> artifact
//
// All intermediate results are in OUT.moe.work until the artifact is done.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/commands/Compile.h"

namespace moec {

/// Writes request.outputPath completely or leaves nothing there; the bytes do not depend on threads
/// and interruptions. After an interruption or a failure (kFailed), or if the target or a budget is
/// out of reach, it keeps the work directory, from which `resume` continues, also with another
/// target. A resumed work directory is kept until the artifact is done; otherwise the directory is
/// removed. A target out of reach is kFailed, and its message names the best assignment found.
moert::Status compileAccurately(const AccurateCompileRequest &request, const Session &session);

} // namespace moec
