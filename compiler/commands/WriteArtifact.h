// The last step of every compilation without a search: from a plan to the artifact.
#pragma once

#include "compiler/emit/EmitArtifact.h"
#include "compiler/import/Checkpoint.h"
#include "compiler/profile/CheckpointHash.h"
#include "compiler/session/Session.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

EmitOptions emitOptionsOf(const std::string &outputPath, unsigned threads, bool resume,
                          const Session &session);

/// For a command without a work directory: with kRefuse, refuses to overwrite what an interrupted
/// one left that can be resumed. Call it before the work begins.
moert::Status refuseLeftEmission(const std::string &outputPath, LeftWork left);

/// Writes the artifact with the checkpoint's mark, and says so.
moert::Status writePlan(EmitPlan plan, const Checkpoint &checkpoint, const CheckpointHash &hash,
                        const EmitOptions &options, const Session &session);

/// writePlan() for a command without a work directory. Another command's work directory for the
/// same output is named and kept, or refused if --resume means it.
moert::Status writeArtifact(EmitPlan plan, const Checkpoint &checkpoint, const EmitOptions &options,
                            const Session &session);

/// Writes the artifact with the weights of another one, and says so.
moert::Status writeCopy(EmitPlan plan, const StoredArtifact &stored, const EmitOptions &options,
                        const Session &session);

/// Adds to a failure of one of these commands the files that --resume continues from, if any exist.
moert::Status withResumeHint(moert::Status status, const std::string &outputPath);

} // namespace moec
