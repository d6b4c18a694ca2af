// Measures whether a disk reads faster into memory that it has recently read into: where a host
// copies a virtual disk's data, the lines that it writes are still in its processor's caches.
#pragma once

#include "tools/moert/probe/ProbeReader.h"
#include "tools/moert/probe/ProbeRun.h"

#include <array>
#include <vector>

namespace moert::probe {

struct ReusePoint {
  uint64_t bytes = 0; // Size of the ring that is read into.
  Number factor;      // Relative to the rate with kProbeMemoryBytes.
};

/// Borrows the run and the reader. The reader must bypass the page cache; it uses all of its memory
/// between rounds.
class ReuseProbe {
public:
  ReuseProbe(ProbeRun &probeRun, ProbeReader &reads, uint64_t fileBytes);

  Status measureRound();
  /// In ascending order; empty for a disk that is slower than any copying.
  std::vector<ReusePoint> report() const;

  static uint64_t plannedNs();

private:
  /// With the last size, memory is not reused soon.
  static constexpr std::array<uint64_t, 3> kSizes = {8 << 20, 32 << 20, kProbeMemoryBytes};

  /// Bytes per second, into the memory from `first` on.
  Result<double> measure(uint64_t first, uint64_t memoryBytes);
  Status read();
  bool isTooSlow() const;

  ProbeRun &run;
  ProbeReader &reader;
  Places places;
  std::array<std::vector<double>, kSizes.size()> rates; // By round.
};

} // namespace moert::probe
