// Memory as the processor's caches see it.
#pragma once

#include <cstddef>
#include <span>

namespace moert {

/// Whether flushFromCaches does anything here: on x86 with clflushopt.
bool canFlushFromCaches();

/// Writes the memory's lines back and drops them from the caches of all cores; what the memory
/// holds stays the same. It begins at a line (64 bytes). 2 MiB took 50 to 80 us (AMD EPYC, Zen 4).
/// Any thread.
void flushFromCaches(std::span<const std::byte> memory);

} // namespace moert
