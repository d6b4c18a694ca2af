// What an artifact keeps of its calibration for plans to be made from: the trace of its routing and
// the activation paths, as sections of the file.
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

/// Empty: absent.
struct LearnedSections {
  std::vector<std::byte> paths; // runtime/predict/PathTable.h
  std::vector<std::byte> trace; // compiler/profile/TraceSection.h
};

/// The sections, and the trace as it is before it is encoded.
struct Learned {
  LearnedSections sections;
  PlanTrace trace;
};

/// Of a profile, for an artifact whose experts have so many bytes: a trace takes no more than a
/// sixteenth of that, or 2 MiB where that is more. The paths are counted on other tokens than those
/// that plans are forecast on (heldOutTokens()).
moert::Result<Learned> learn(const CalibrationProfile &profile, uint64_t expertBytes);

/// Of an artifact, checksums checked.
moert::Result<LearnedSections> readLearnedSections(const moert::ByteSource &source,
                                                   const moert::Artifact &artifact);

/// The trace, of at least one byte. Refuses one of another model: where nothing says which it was
/// learned from, experts and how many of them a token has give it away.
moert::Result<PlanTrace> readTraceOf(const moert::Artifact &artifact,
                                     std::span<const std::byte> section);

/// Puts them behind the weights and the tokenizer of an artifact that may have had others. Returns
/// where they begin.
uint64_t placeLearnedSections(const LearnedSections &learned, moert::Artifact &artifact);

} // namespace moec
