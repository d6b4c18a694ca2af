// The activation paths that an artifact keeps (runtime/predict/PathTable.h), counted in the traces
// of a calibration profile.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "compiler/profile/TraceSection.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// Of two layers traced on the same tokens, [expertsBefore][experts]: of the tokens that chose an
/// expert of the earlier one, the share that chose each of the later one, times 255, rounded.
std::vector<uint8_t> followingShares(const LayerTrace &before, uint32_t expertsBefore,
                                     const LayerTrace &layer, uint32_t experts);

/// The section's bytes, counted on all tokens but those held out. Refuses a profile that cannot be
/// read. Holds three layers' traces at a time.
moert::Result<std::vector<std::byte>> makePathSection(const CalibrationProfile &profile,
                                                      std::span<const TokenRange> heldOut = {});

} // namespace moec
