// Whether the results of an unfinished step are kept for --resume.
#pragma once

#include "runtime/base/Status.h"

namespace moec {

/// True for an interruption, for any error of a resumed run, whose earlier results it must not
/// delete, and for a system failure once something is done. False for refused input: it must be
/// changed, and then the results do not apply.
inline bool isKeptForResume(const moert::Status &status, bool isResumed, bool hasDone) {
  return status.code() == moert::StatusCode::kInterrupted || (!status.isOk() && isResumed) ||
         (status.code() == moert::StatusCode::kFailed && hasDone);
}

} // namespace moec
