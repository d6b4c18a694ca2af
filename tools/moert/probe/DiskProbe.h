// Measures how long reads from a disk take, with the runtime's own queues: whole records at random
// places, several in flight at once.
#pragma once

#include "runtime/io/ReadQueue.h"
#include "tools/moert/probe/ProbeFile.h"
#include "tools/moert/probe/ProbeReader.h"

#include <optional>
#include <string>
#include <vector>

namespace moert::probe {

struct ReadPoint {
  uint64_t bytes = 0;    // Record size.
  uint32_t depth = 0;    // Records in flight.
  Number bytesPerSecond; // Sum over all reads in flight.
};

struct DiskReport {
  IoBackend backend = IoBackend::kBuffered; // The choice of --io auto.
  bool hasRegisteredBuffers = false;
  std::string description;       // The queue's, with the reason if a better one was refused.
  uint64_t fileBytes = 0;        // Size of the file that was read.
  std::vector<ReadPoint> direct; // Empty if direct reads are refused.
  std::vector<ReadPoint> buffered;
  Number cachedBytesPerSecond;
};

/// A disk's sustained rate, from rates that were measured one directly after the other: their
/// median without the first. Before the first one the disk was not fully used, and a rate limit
/// then allows a burst.
double sustainedRate(std::vector<double> rates);

/// One way of reading: one cell for every pair of size and depth.
class ReadCells {
public:
  struct Plan {
    std::vector<uint64_t> sizes;
    std::vector<uint32_t> depths; // Begins with 1.
    uint64_t ns;                  // Total over all rounds.
    bool isBuffered;
    const char *step; // For the progress line.
  };

  explicit ReadCells(Plan of);

  /// Measures all cells in turn, except those for which a slow disk needs more than the remaining
  /// time.
  Status measureRound(ProbeRun &run, ProbeReader &reader, const ProbeFile &file);
  /// Steady rates of the rounds. Cells that were never measured are derived from the nearest one
  /// that was.
  std::vector<ReadPoint> points() const;

private:
  struct Cell {
    ReadPoint point;
    std::vector<double> rates;
  };
  const Cell &nearestMeasured(size_t index) const;
  bool isTooSlow(size_t index, uint64_t leftNs) const;

  Plan plan;
  std::vector<Cell> cells;
  uint64_t spentNs = 0;
};

/// Borrows the run, the file, the opened artifact file and the memory.
class DiskProbe {
public:
  /// memory: of kProbeMemoryBytes.
  static Result<DiskProbe> create(ProbeRun &run, const ProbeFile &file, const ArtifactFile &opened,
                                  HostRegion &memory);

  /// Reads past the page cache and through it.
  Status measureRound();
  /// Call after the last round. Also measures the page cache's rate and the sustained rate at the
  /// fastest point.
  Result<DiskReport> report();

  /// Reads with the backend of --io auto.
  ProbeReader &reader() { return planned; }
  /// Whether reader() bypasses the page cache.
  bool readsDirectly() const { return directCells.has_value(); }

  static uint64_t plannedNs();

private:
  DiskProbe(ProbeRun &probeRun, const ProbeFile &probed, ProbeReader asPlanned,
            ProbeReader throughCache, IoBackend of);

  Result<double> measureCached();
  Result<double> measureSustained(const std::vector<ReadPoint> &points);

  ProbeRun &run;
  const ProbeFile &file;
  ProbeReader planned, buffered;
  IoBackend backend;
  std::optional<ReadCells> directCells; // nullopt if direct reads are refused.
  ReadCells bufferedCells;
};

} // namespace moert::probe
