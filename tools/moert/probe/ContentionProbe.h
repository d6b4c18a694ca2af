// What computing and reading cost each other, measured as the engine does both: all threads
// multiply experts' matrices while records are read by the queue that the runtime reads with.
#pragma once

#include "tools/moert/probe/ProbeProducts.h"
#include "tools/moert/probe/ProbeReader.h"
#include "tools/moert/probe/ProbeRun.h"

#include <vector>

namespace moert::probe {

/// How long a layer computes before it reads, which many disks take for a rest: what wakeNs is of.
constexpr uint64_t kRestNs = 1'000'000;

struct ContentionReport {
  Number computingShare; // Of the rate of products that is left while reads are under way.
  Number readingShare;   // Of the disk's rate that is left while all threads compute.
  Number submitNsPerMiB; // Of the computing thread, to have so much read.
  Number wakeNs;         // How much longer reads take that begin when the disk has rested.
};

/// Borrows the run, the processor and the reader.
class ContentionProbe {
public:
  ContentionProbe(ProbeRun &probeRun, const Processor &computes, ProbeReader &reads,
                  uint64_t fileBytes);

  Status measureRound();
  ContentionReport report() const;

  static uint64_t plannedNs();

private:
  struct Turn {
    double productNs = 0, bytesPerSecond = 0, submitNsPerByte = 0;
  };
  Status measureTurns();
  Result<Turn> turn(bool computes, bool isReading);
  Result<double> measureWakeNs();
  Result<double> burstNs(bool rests);

  ProbeRun &run;
  const Processor &processor;
  Matrices matrices;
  ProbeReader &reader;
  Places places;
  uint64_t spentNs = 0;
  std::vector<double> computing, alone, beside, submitNs, wakeNs; // By turn.
};

} // namespace moert::probe
