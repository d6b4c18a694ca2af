// The machine's limits, with which benches compare their rates: the rate of reading memory, and of
// multiply-adds when all operands stay in registers.
#pragma once

#include "runtime/exec/Kernels.h"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace moert::bench {

/// Runs work(thread) on each thread; the most processor time that any of them took, so that a busy
/// machine disturbs little.
double secondsOf(uint32_t threads, const std::function<void(uint32_t)> &work);

/// Bytes a second that so many threads read together, each a part of the memory by itself.
double readRate(const std::byte *memory, uint64_t bytes, uint32_t threads);

/// Multiply-adds a second of so many threads together, with the instruction that the version's
/// products are made of: bytes to integers, or f32. 0 where there is no loop for it (reference,
/// ARM).
double peakRate(Isa isa, bool isInteger, uint32_t threads);

} // namespace moert::bench
