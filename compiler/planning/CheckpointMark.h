// What an artifact says of the checkpoint that it was made from: the hash that calibration profiles
// keep as well, so that the one can be held against the other.
#pragma once

#include "compiler/profile/CheckpointHash.h"
#include "compiler/session/Session.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <string>

namespace moec {

/// Entries of the provenance.
void markCheckpoint(const CheckpointHash &checkpointHash, moert::Artifact &artifact);

/// Refuses a profile of a checkpoint with another hash than what is expected; `whose` goes on with
/// "which".
moert::Status checkSameCheckpoint(const CheckpointHash &profiled, const std::string &profilePath,
                                  const CheckpointHash &expected, const std::string &whose);

/// The same against what an artifact is marked with. Artifacts of older compilers say nothing:
/// of these a line is told, and the profile is taken.
moert::Status checkSameCheckpoint(const moert::Artifact &artifact, const std::string &artifactPath,
                                  const CheckpointHash &profiled, const std::string &profilePath,
                                  const Session &session);

} // namespace moec
