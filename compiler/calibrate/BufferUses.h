// Operands of an instruction: the buffers that it reads and writes, and the resident weights that
// it needs. From these follow the buffers that are live between two instructions and the weights
// that a part of a program needs. Used by layerwise execution, where prefetching is off: predict
// instructions have no operands here.
#pragma once

#include "runtime/format/Schedule.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moert {

struct BufferUses {
  std::vector<int32_t> reads, writes; // Buffers; scratch counts as written.
  std::vector<int32_t> weights;       // Resident weights, vectors among them.
};

BufferUses usesOf(const Instruction &instruction);

/// Buffers that instructions from `boundary` on read before they write them, ascending.
std::vector<int32_t> liveBuffers(const Program &program, size_t boundary);

} // namespace moert
