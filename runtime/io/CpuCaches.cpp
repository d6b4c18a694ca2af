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

bool canTakeOutOfCaches() {
  static const bool can = hasClflushopt();
  return can;
}

__attribute__((target("clflushopt"))) static void flushLines(std::span<const std::byte> memory) {
  constexpr size_t kLineBytes = 64;
  for (size_t i = 0; i < memory.size(); i += kLineBytes)
    _mm_clflushopt(const_cast<std::byte *>(memory.data() + i));
  _mm_sfence();
}

void takeOutOfCaches(std::span<const std::byte> memory) {
  if (canTakeOutOfCaches())
    flushLines(memory);
}

#else

bool canTakeOutOfCaches() {
  return false;
}

void takeOutOfCaches(std::span<const std::byte>) {}

#endif

} // namespace moert
