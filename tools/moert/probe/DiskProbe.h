// How long reads from a disk take, through the very queues that the runtime reads experts with:
// whole records at random places, several under way at once.
#pragma once

#include "runtime/io/ReadQueue.h"
#include "tools/moert/probe/ProbeFile.h"

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

/// What probeDisk() plans to take.
uint64_t plannedDiskNs();

Result<DiskReport> probeDisk(ProbeRun &run, const ProbeFile &file);

} // namespace moert::probe
