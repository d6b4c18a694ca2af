// Measures how computing and reading slow each other down, in the way the engine does both: all
// threads multiply experts' matrices while the runtime's queue reads records.
#pragma once

#include "tools/moert/probe/ProbeProducts.h"
#include "tools/moert/probe/ProbeReader.h"
#include "tools/moert/probe/ProbeRun.h"

#include <vector>

namespace moert::probe {

/// How long a layer computes before it reads, which many disks treat as idle time; basis of wakeNs.
constexpr uint64_t kRestNs = 1'000'000;

struct ContentionReport {
  Number computingFraction; // Fraction of the product rate that remains while reads are in flight.
  Number readingFraction;   // Fraction of the disk's rate that remains while all threads compute.
  Number submitNsPerMiB;    // Time that the computing thread spends per MiB read.
  Number wakeNs;            // Additional time of reads that begin after the disk was idle.
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
