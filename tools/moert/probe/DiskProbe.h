// How long reads from a disk take, through the very queues that the runtime reads experts with:
// whole records at random places, several under way at once.
#pragma once

#include "runtime/io/ReadQueue.h"
#include "tools/moert/probe/ProbeFile.h"
#include "tools/moert/probe/ProbeReader.h"

#include <optional>
#include <string>
#include <vector>

namespace moert::probe {

struct ReadPoint {
  uint64_t bytes = 0;    // Of a record.
  uint32_t depth = 0;    // Records under way.
  Number bytesPerSecond; // Of all of them together.
};

struct DiskReport {
  IoBackend backend = IoBackend::kBuffered; // What --io auto takes.
  bool hasRegisteredBuffers = false;
  std::string description;       // Of that queue, with what was refused before it.
  uint64_t fileBytes = 0;        // What there was to read.
  std::vector<ReadPoint> direct; // Empty where direct reads are refused.
  std::vector<ReadPoint> buffered;
  Number cachedBytesPerSecond;
};

/// What a disk keeps up, of rates that were measured one right behind the other: their median
/// without the first. Before that one the disk was asked for less than it may give, and one that is
/// held to a rate makes up for it.
double sustainedRate(std::vector<double> rates);

/// One way of reading: every size at every depth, a cell each.
class ReadCells {
public:
  struct Plan {
    std::vector<uint64_t> sizes;
    std::vector<uint32_t> depths; // 1 is the first.
    uint64_t ns;                  // Of all rounds together.
    bool isBuffered;
    const char *step; // For the progress line.
  };

  explicit ReadCells(Plan of);

  /// All cells in turn; none that a slow disk takes longer for than the planned time leaves.
  Status measureRound(ProbeRun &run, ProbeReader &reader, const ProbeFile &file);
  /// Steady rates of the rounds. What was never measured is derived from what is nearest to it.
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

/// Borrows the run, the file, its opened form and the memory.
class DiskProbe {
public:
  /// memory: kProbeMemoryBytes.
  static Result<DiskProbe> create(ProbeRun &run, const ProbeFile &file, const ArtifactFile &opened,
                                  HostRegion &memory);

  /// Past the page cache and through it.
  Status measureRound();
  /// Behind the last round. Measures what the page cache gives, and what the disk keeps up of the
  /// point that seems the fastest.
  Result<DiskReport> report();

  /// Reads as --io auto does.
  ProbeReader &reader() { return planned; }
  /// And that is past the page cache.
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
  std::optional<ReadCells> directCells; // Unless direct reads are refused.
  ReadCells bufferedCells;
};

} // namespace moert::probe
