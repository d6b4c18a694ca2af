// What a long step that did not finish leaves.
#pragma once

#include "runtime/base/Status.h"

namespace moec {

/// Whether what is done stays for --resume behind such an end: an interruption, any error of a run
/// that went on from an earlier one, which is not this one's to take, a failure of the system.
/// Input that is refused will be again, and is another one once it is changed.
inline bool isKeptForResume(const moert::Status &status, bool isResumed, bool hasDone) {
  return status.code() == moert::StatusCode::kInterrupted || (!status.isOk() && isResumed) ||
         (status.code() == moert::StatusCode::kFailed && hasDone);
}

} // namespace moec
