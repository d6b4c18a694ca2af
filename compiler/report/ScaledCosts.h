// What a change to a run's model makes of its costs: records of other sizes, other times of
// computing, a disk of other rates.
#pragma once

#include "compiler/plan/PlanInputs.h"
#include "compiler/plan/TimedReplay.h"
#include "compiler/report/ReportInputs.h"

#include <cstdint>
#include <vector>

namespace moec {

/// Records of other sizes, with their slices.
struct ScaledRecords {
  std::vector<std::vector<uint64_t>> bytes;
  std::vector<std::vector<std::vector<uint64_t>>> sliceEnds;
};

/// All records together take that much more or less. They take whole pages, so some have one page
/// more than others: if all grew by a byte beyond their pages, all would take one more.
void scaleExperts(double factor, const ModelFacts &facts, StepCosts &costs,
                  ScaledRecords &scaledRecords);

/// All computing takes that much more or less time.
void scaleComputing(double factor, StepCosts &costs);

/// The table of a disk of other rates and another latency. A round of `depth` reads takes its
/// latency, which is that of the smallest single read, and the time of its bytes.
ReadTable changedReads(const ReadTable &reads, double rate, double latency);

} // namespace moec
