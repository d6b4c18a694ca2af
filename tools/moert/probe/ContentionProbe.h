// What computing and reading cost each other, measured as the engine does both: all threads
// multiply experts' matrices while records are read by the queue that the runtime reads with.
#pragma once

#include "runtime/io/ReadQueue.h"
#include "runtime/kernels/Kernels.h"
#include "tools/moert/probe/ProbeFile.h"

namespace moert::probe {

/// How long a layer computes before it reads, which many disks take for a rest: what wakeNs is of.
constexpr uint64_t kRestNs = 1'000'000;

struct ContentionReport {
  Number computingShare; // Of the rate of products that is left while reads are under way.
  Number readingShare;   // Of the disk's rate that is left while all threads compute.
  Number submitNsPerMiB; // Of the computing thread, to have so much read.
  Number wakeNs;         // How much longer reads take that begin when the disk has rested.
};

uint64_t plannedContentionNs();

/// Takes kProbeMemoryBytes (ProbeReader.h) beside what probeCompute() takes.
Result<ContentionReport> probeContention(ProbeRun &run, const ProbeFile &file,
                                         const KernelTable &kernels, uint32_t threads);

} // namespace moert::probe
