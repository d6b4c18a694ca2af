// What an instruction touches: which buffers it reads and writes, which resident weights it needs.
// From that follows what is alive between two instructions, and what has to be in memory for a part
// of a program. That is asked where a program is played in parts, which guess no experts: guesses
// touch nothing there.
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

/// The buffers whose values instructions from `boundary` on read before they write them, ascending.
std::vector<int32_t> liveBuffers(const Program &program, size_t boundary);

} // namespace moert
