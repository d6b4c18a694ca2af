#include "runtime/base/Clock.h"

#include <chrono>

namespace moert {

uint64_t monotonicNs() {
  auto sinceStart = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(sinceStart).count());
}

} // namespace moert
