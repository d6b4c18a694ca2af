// Reads a whole .moe file and checks every checksum and every padding byte. readArtifact() proves
// that a file can be used safely; this proves that it is still the file that was written.
#pragma once

#include "runtime/format/Reader.h"

#include <functional>

namespace moert {

/// Calls `progress` with the bytes read so far and in total. An error names the damaged place: the
/// section, or the layer, expert and slice.
Status verifyArtifact(const ByteSource &source,
                      const std::function<void(uint64_t done, uint64_t total)> &progress = {});

} // namespace moert
