// Whether a disk reads faster into memory that it has read into a short time ago: where a host
// copies what a virtual disk delivers, its processor's caches still hold the lines that it writes.
#pragma once

#include "tools/moert/probe/ProbeReader.h"
#include "tools/moert/probe/ProbeRun.h"

#include <array>
#include <vector>

namespace moert::probe {

struct ReusePoint {
  uint64_t bytes = 0; // Of the memory that is read into, round and round.
  Number share;       // Of the rate with kProbeMemoryBytes.
};

/// Borrows the run and the reader, which reads past the page cache, and into all of its memory
/// between rounds.
class ReuseProbe {
public:
  ReuseProbe(ProbeRun &probeRun, ProbeReader &reads, uint64_t fileBytes);

  Status measureRound();
  /// Ascending; none of a disk that is slower than any copying.
  std::vector<ReusePoint> report() const;

  static uint64_t plannedNs();

private:
  /// The last one is of memory that was not read into for long.
  static constexpr std::array<uint64_t, 3> kSizes = {8 << 20, 32 << 20, kProbeMemoryBytes};

  /// Bytes a second, into memory from `first` on.
  Result<double> measure(uint64_t first, uint64_t memoryBytes);
  Status read();
  bool isTooSlow() const;

  ProbeRun &run;
  ProbeReader &reader;
  Places places;
  std::array<std::vector<double>, kSizes.size()> rates; // By round.
};

} // namespace moert::probe
