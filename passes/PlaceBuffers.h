// Offsets of buffers in an arena, from their lifetimes.
#pragma once

#include "runtime/format/Schedule.h"

#include <cstdint>
#include <span>
#include <vector>

namespace mlir::moe {

/// Bytes that must be kept from instruction `first` to instruction `last`, both included.
struct Lifetime {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0;
};

/// Returns an offset for each, so that no two with overlapping lifetimes share bytes. Largest
/// first, each at the lowest free offset; ties by the first instruction, then by position in the
/// list, so that the same lifetimes give the same offsets. If all `bytes` are multiples of an
/// alignment, so are the offsets.
std::vector<uint64_t> placeBuffers(std::span<const Lifetime> lifetimes);

/// Whether a field's buffer is one that the instruction itself begins, as a result or as scratch.
bool isWritten(moert::FieldRole role);

/// Gives every buffer of a program, each of which one instruction writes, an offset. A result lies
/// in place of an input where the declaration allows it and the input has no later use.
void placeProgram(moert::Program &program);

} // namespace mlir::moe
