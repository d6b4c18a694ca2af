#include "runtime/io/CpuCaches.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace moert {

#if defined(__x86_64__)

static bool detectVirtualDisks() {
  constexpr unsigned kHypervisor = 1u << 31; // Leaf 1, ecx: set by hypervisors, zero on hardware.
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kHypervisor) == 0)
    return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_CLFLUSHOPT) != 0;
}

bool hasVirtualDisks() {
  static const bool has = detectVirtualDisks();
  return has;
}

__attribute__((target("clflushopt"))) static void flushLines(std::span<const std::byte> memory) {
  constexpr size_t kLineBytes = 64;
  for (size_t i = 0; i < memory.size(); i += kLineBytes)
    _mm_clflushopt(const_cast<std::byte *>(memory.data() + i));
  _mm_sfence(); // The request that is stored next must not overtake the flushing.
}

void flushFromCaches(std::span<const std::byte> memory) {
  if (hasVirtualDisks())
    flushLines(memory);
}

#else

bool hasVirtualDisks() {
  return false;
}

void flushFromCaches(std::span<const std::byte>) {}

#endif

} // namespace moert
