// The checkpoint at its own precision as an artifact: what calibration executes and what a search
// measures losses against. It lives in a work directory and is as large as the checkpoint.
#pragma once

#include "compiler/commands/Compile.h"
#include "compiler/session/WorkDirectory.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

struct ReferenceRequest {
  std::string checkpointDirectory;
  std::string key; // Tells the checkpoint from others, such as its hash.
  unsigned threads = 1;
};

/// The path of the reference: of the one that is there, if it is this checkpoint's.
moert::Result<std::string> makeReference(const ReferenceRequest &request, const WorkDirectory &work,
                                         const Session &session);

} // namespace moec
