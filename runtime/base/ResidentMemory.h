// The resident set of this process, cheap enough for every few steps of a run.
#pragma once

#include <cstdint>

namespace moert {

/// Owns a descriptor of /proc/self/statm; used by one thread. bytes() allocates nothing.
class ResidentMemory {
public:
  ResidentMemory();
  ~ResidentMemory();
  ResidentMemory(const ResidentMemory &) = delete;
  ResidentMemory &operator=(const ResidentMemory &) = delete;

  /// 0 where the system does not report it.
  uint64_t bytes() const;

private:
  int file = -1;
};

} // namespace moert
