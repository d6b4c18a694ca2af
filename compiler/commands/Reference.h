// The reference: the checkpoint at its own precision as an artifact. Calibration executes it, and a
// search measures losses against it. It is in a work directory and as large as the checkpoint.
#pragma once

#include "compiler/commands/Compile.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

struct ReferenceRequest {
  std::string checkpointDirectory;
  std::string key; // Identifies the checkpoint, such as its hash.
  unsigned threads = 1;
};

/// Returns the reference's path. Reuses an existing one of the same checkpoint.
moert::Result<std::string> makeReference(const ReferenceRequest &request, const WorkDirectory &work,
                                         const Session &session);

} // namespace moec
