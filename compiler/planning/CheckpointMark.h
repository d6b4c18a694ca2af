// Records in an artifact the hash of the checkpoint that it was made from. Calibration profiles
// keep the same hash, so the two can be compared.
#pragma once

#include "compiler/profile/CheckpointHash.h"
#include "compiler/session/Session.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <string>

namespace moec {

/// Adds the provenance entries.
void markCheckpoint(const CheckpointHash &checkpointHash, moert::Artifact &artifact);

/// Refuses a profile whose checkpoint has another hash than expected; `whose` completes the message
/// after "which".
moert::Status checkSameCheckpoint(const CheckpointHash &profiled, const std::string &profilePath,
                                  const CheckpointHash &expected, const std::string &whose);

/// The same for the hash in an artifact. If an older compiler did not record one, prints a warning
/// and accepts the profile.
moert::Status checkSameCheckpoint(const moert::Artifact &artifact, const std::string &artifactPath,
                                  const CheckpointHash &profiled, const std::string &profilePath,
                                  const Session &session);

} // namespace moec
