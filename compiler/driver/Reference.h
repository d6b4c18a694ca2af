// The checkpoint at its own precision as an artifact: what calibration plays and what a search
// measures losses against. It lives in a work directory and is as large as the checkpoint.
#pragma once

#include "compiler/driver/Compile.h"
#include "runtime/base/Status.h"

#include <string>

namespace moec {

struct ReferenceRequest {
  std::string checkpointDirectory;
  std::string workDirectory; // Made if it is not there.
  unsigned threads = 1;
  bool resume = false; // Take the one that is there, or go on with it, if it is this checkpoint's.
};

/// The path of the reference.
moert::Result<std::string> makeReference(const ReferenceRequest &request, const Session &session);

/// Removes what makeReference() left in the directory, and the directory if nothing else is in it.
void removeReference(const std::string &workDirectory);

} // namespace moec
