// The calibration results that an artifact keeps for planning, as sections of the file: the trace
// of its routing and the activation-path table.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "compiler/profile/TraceSection.h"
#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"
#include "runtime/format/Reader.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// An empty section is absent.
struct LearnedSections {
  std::vector<std::byte> paths; // runtime/predict/PathTable.h
  std::vector<std::byte> trace; // compiler/profile/TraceSection.h
};

/// The sections, and the trace before encoding.
struct Learned {
  LearnedSections sections;
  PlanTrace trace;
};

/// Makes the sections from a profile, for an artifact with expertBytes of experts: the trace takes
/// at most a sixteenth of that or 2 MiB, whichever is more. The activation-path table does not
/// count the tokens that plans are forecast on (heldOutTokens()).
moert::Result<Learned> learn(const CalibrationProfile &profile, uint64_t expertBytes);

/// Reads the sections of an artifact and checks their checksums.
moert::Result<LearnedSections> readLearnedSections(const moert::ByteSource &source,
                                                   const moert::Artifact &artifact);

/// Decodes the trace, which must not be empty. Refuses one of another model, which is recognized by
/// its numbers of experts and of experts per token.
moert::Result<PlanTrace> readTraceOf(const moert::Artifact &artifact,
                                     std::span<const std::byte> section);

/// Places the sections after the weights and the tokenizer of an artifact, in place of its present
/// ones. Returns the offset of the first.
uint64_t placeLearnedSections(const LearnedSections &learned, moert::Artifact &artifact);

} // namespace moec
