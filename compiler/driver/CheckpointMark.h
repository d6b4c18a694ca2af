// What an artifact says of the checkpoint that it was made from: the hash that calibration profiles
// keep as well, so that the one can be held against the other.
#pragma once

#include "compiler/driver/Session.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <cstdint>
#include <string>

namespace moec {

/// An entry of the provenance.
void markCheckpoint(uint64_t checkpointHash, moert::Artifact &artifact);

/// Refuses a profile of a checkpoint with another hash. Artifacts of older compilers say nothing:
/// of these a line is told, and the profile is taken.
moert::Status checkSameCheckpoint(const moert::Artifact &artifact, const std::string &artifactPath,
                                  uint64_t profiledHash, const std::string &profilePath,
                                  const Session &session);

} // namespace moec
