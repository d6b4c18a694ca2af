#include "runtime/io/CpuCaches.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace moert {

#if defined(__x86_64__)

static bool hasClflushopt() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_CLFLUSHOPT) != 0;
}

bool canFlushFromCaches() {
  static const bool can = hasClflushopt();
  return can;
}

__attribute__((target("clflushopt"))) static void flushLines(std::span<const std::byte> memory) {
  constexpr size_t kLineBytes = 64;
  for (size_t i = 0; i < memory.size(); i += kLineBytes)
    _mm_clflushopt(const_cast<std::byte *>(memory.data() + i));
  _mm_sfence(); // What is stored behind, the request too, must not overtake the flushing.
}

void flushFromCaches(std::span<const std::byte> memory) {
  if (canFlushFromCaches())
    flushLines(memory);
}

#else

bool canFlushFromCaches() {
  return false;
}

void flushFromCaches(std::span<const std::byte>) {}

#endif

} // namespace moert
