// Makes an artifact's activation-path table (runtime/experts/PathTable.h) from the traces of a
// calibration profile.
#pragma once

#include "compiler/profile/CalibrationProfile.h"
#include "compiler/profile/TraceSection.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// For two layers traced on the same tokens, [expertsBefore][experts]: the fraction of the tokens
/// with an expert in the earlier layer that chose each expert of the later one, times 255, rounded.
std::vector<uint8_t> followingFrequencies(const LayerTrace &before, uint32_t expertsBefore,
                                          const LayerTrace &layer, uint32_t experts);

/// The section's bytes, counted over all tokens except those held out. An error if the profile
/// cannot be read. Holds three layers' traces at a time.
moert::Result<std::vector<std::byte>> makePathSection(const CalibrationProfile &profile,
                                                      std::span<const TokenRange> heldOut = {});

} // namespace moec
