// Where buffers lie in an arena, from when to when they are alive. Pure arithmetic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mlir::moe {

/// Bytes that have to be kept from instruction `first` to instruction `last`, both included.
struct Lifetime {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0;
};

/// An offset for each, so that no two that are alive at the same time share bytes. Largest first,
/// each at the lowest offset that is free; equal ones in the order of their beginnings, then of the
/// list, so that the same lifetimes give the same places. `bytes` that are multiples of an
/// alignment give offsets that are multiples of it.
std::vector<uint64_t> placeBuffers(std::span<const Lifetime> lifetimes);

} // namespace mlir::moe
