// The calibration results that planning uses and an artifact keeps: the trace of the routing and
// the activation-path table.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "compiler/profile/TraceSection.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace moec {

/// An empty section is absent.
struct LearnedSections {
  std::vector<std::byte> paths; // runtime/experts/PathTable.h
  std::vector<std::byte> trace; // compiler/profile/TraceSection.h
};

/// The sections, and the trace before encoding.
struct Learned {
  LearnedSections sections;
  PlanTrace trace;
};

/// Makes the sections from a profile, for an artifact with expertBytes of experts: the trace takes
/// at most a sixteenth of that or 4 MiB, whichever is more. The activation-path table does not
/// count the tokens that plans are forecast on (heldOutTokens()). alsoRead: what else was read
/// before any acceptance (SeenText::runs()), which the trace keeps with the profile's own text,
/// beyond those bytes; nullopt: not known, and the trace keeps none.
moert::Result<Learned> learn(const CalibrationProfile &profile, uint64_t expertBytes,
                             const std::optional<std::vector<uint64_t>> &alsoRead);

} // namespace moec
