// Reading a whole .moe file: every checksum, every padding byte. readArtifact() proves that a file
// can be used safely, this that it is still the one that was written.
#pragma once

#include "runtime/format/Reader.h"

#include <functional>

namespace moert {

/// `progress` hears the bytes read so far and in all. Damage is reported with what it hit: the
/// section, or the layer, expert and slice.
Status verifyArtifact(const ByteSource &source,
                      const std::function<void(uint64_t done, uint64_t total)> &progress = {});

} // namespace moert
