// The calibration results that planning uses and an artifact keeps: the trace of the routing and
// the activation-path table.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "compiler/profile/TraceSection.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
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
/// at most a sixteenth of that or 4 MiB, whichever is more. The activation-path table does not
/// count the tokens that plans are forecast on (heldOutTokens()).
moert::Result<Learned> learn(const CalibrationProfile &profile, uint64_t expertBytes);

} // namespace moec
