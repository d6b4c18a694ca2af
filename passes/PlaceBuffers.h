// Offsets of buffers in an arena, from their lifetimes.
#pragma once

#include "compiler/ir/MoeDialect.h"

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

/// The buffers of a program, or of a function after plan-memory, in order.
SmallVector<BufferOp> buffersOf(Block &block);

/// Gives every buffer of the program an offset, and returns the bytes per token of the arena.
uint64_t placeProgram(ProgramOp program);

/// Makes two buffers of one type at one offset the same buffer.
void mergePlaces(ProgramOp program);

} // namespace mlir::moe
