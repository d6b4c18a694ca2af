// Divides a run's time, compares it with its lower bounds, and names the causes of what it takes:
// - Differences from what was planned, if they cost enough: a disk slower than its profile, a text
//   unlike the calibration text.
// - What limits the run besides. A run that waits for reads is limited by its budget, where the
//   machine has memory that it did not take, by its start, where it mostly reads experts for the
//   first time, or else by its disk; a run that does not wait is limited by computing.
// The cause that costs the most is the verdict; of causes that cost about as much, a difference
// from what was planned.
#pragma once

#include "compiler/report/TextComparison.h"
#include "compiler/report/WhatIf.h"

#include <optional>
#include <string>
#include <vector>

namespace moec {

enum class Limit : uint8_t { kDisk, kText, kMemory, kStart, kCompute };

/// "disk", "text", "memory", "start", "compute".
std::string_view limitName(Limit limit);

struct Cause {
  Limit limit = Limit::kCompute;
  double costNs = 0;    // Per token: by simulation without the cause, or the time of computing.
  std::string sentence; // At most kMostWords.
};

/// Words of a sentence of the verdict.
constexpr size_t kMostWords = 25;

struct TimePart {
  std::string name;
  double ns = 0; // In a mean decoded token.
};

struct Diagnosis {
  double tokenNs = 0, waitNs = 0, computeNs = 0; // Means of all decode steps, measured.
  std::vector<TimePart> parts;                   // They add up to tokenNs; the largest first.
  double leastBytes = 0;                         // Belady's, of this run, per decoded token.
  double mostHits = 0;   // Belady's hit rate; at least that of any cache of this size.
  double firstBytes = 0; // Read for the first time in the run; a part of them.
  double boundNs = 0;    // Computing alone, or reading those bytes at the disk's best rate.
  std::optional<TextComparison> text; // Absent without a calibration trace.
  std::vector<Cause> causes;          // Not empty; the most expensive one is first.
};

/// The differences from what was planned and the limit of a run, the most expensive first; a
/// difference also before a limit that costs up to a tenth more.
std::vector<Cause> orderedCauses(std::vector<Cause> differences, std::optional<Cause> limit);

moert::Result<Diagnosis> diagnose(const RunSimulation &simulation, const WhatIf &whatIf);

} // namespace moec
