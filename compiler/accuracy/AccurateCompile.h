// Accuracy as a contract: from a checkpoint and the loss that is allowed to an artifact whose
// measured loss is within it: of the fewest bytes, or with a device and a budget of the least
// expected time per token.
//
//   reference -> calibration profile -> pool of quantized experts -> search -> artifact
//
// Everything but the last lies in OUT.moe.work until the artifact is done.
#pragma once

#include "compiler/accuracy/AccurateRequest.h"
#include "compiler/commands/Compile.h"

namespace moec {

/// Writes request.outputPath, whole or not at all; the same bytes whatever the threads and the
/// interruptions. Interrupted, failed (kFailed), or because the target or a budget is out of reach,
/// it keeps the work directory, from which `resume` goes on, with another target too; a work
/// directory that it went on from stays unless the artifact is done; otherwise it leaves nothing. A
/// target out of reach is kFailed, and its message names the best that was found.
moert::Status compileAccurately(const AccurateCompileRequest &request, const Session &session);

} // namespace moec
