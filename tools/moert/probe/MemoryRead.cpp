#include "tools/moert/probe/MemoryRead.h"

#include <cstdint>
#include <cstring>

namespace moert::probe {

// Of one stream, as the kernels ask for one (kAheadBytes in runtime/kernels/cpu/LinearQuantized.h).
// Some processors' own prefetching reaches little more than half of the rate that this has.
constexpr size_t kAheadBytes = 4096;

void readThrough(std::span<const std::byte> memory) {
  // Eight sums, so that no load waits for another.
  uint64_t sums[8] = {};
  for (size_t i = 0; i + sizeof sums <= memory.size(); i += sizeof sums) {
    __builtin_prefetch(memory.data() + i + kAheadBytes);
    uint64_t words[8];
    std::memcpy(words, memory.data() + i, sizeof words);
    for (int k = 0; k < 8; ++k)
      sums[k] += words[k];
  }
  uint64_t all = 0;
  for (uint64_t sum : sums)
    all ^= sum;
  asm volatile("" : : "r"(all));
}

} // namespace moert::probe
