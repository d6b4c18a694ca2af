// The sections of an artifact that hold calibration results for planning
// (compiler/profile/Learned.h).
#pragma once

#include "compiler/profile/Learned.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"
#include "runtime/format/Reader.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moec {

/// Reads the sections of an artifact and checks their checksums.
moert::Result<LearnedSections> readLearnedSections(const moert::ByteSource &source,
                                                   const moert::Artifact &artifact);

/// Decodes the trace, which must not be empty. Refuses one of another model, which is recognized by
/// its numbers of experts and of experts per token.
moert::Result<PlanTrace> readTraceOf(const moert::Artifact &artifact,
                                     std::span<const std::byte> section);

} // namespace moec
