// Predictions of what a run would do with another budget, disk, width or plan: the run's simulation
// with one thing changed. Speeds are the measured one, multiplied by the ratio of simulated times,
// so that an error of the simulation that both share cancels out.
#pragma once

#include "compiler/report/RunSimulation.h"
#include "compiler/session/Session.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moec {

struct Predicted {
  double tokensPerSecond = 0;
  double gain = 0; // 0.25: a quarter faster than the run.
  Simulated simulated;
};

struct BudgetPoint {
  double expertFraction = 0; // Relative to all expert bytes.
  uint64_t memoryBytes = 0;  // The whole process.
  Predicted predicted;
};

struct DiskPoint {
  double rateFactor = 1, latencyFactor = 1;
  double bytesPerSecond = 0;
  Predicted predicted;
};

struct WidthPoint {
  double bits = 0;        // Per weight of an expert, without scales.
  double bytesFactor = 1; // On the experts' bytes.
  Predicted predicted;
};

/// Widths that the search of the compilation measured.
struct CandidatePoint {
  size_t candidate = 0;   // Index in the artifact's measured candidates.
  uint64_t bytes = 0;     // Experts and resident weights.
  double bytesFactor = 1; // On the artifact's expert bytes.
  bool isBest = false;    // No other candidate loses less in as few bytes.
  /// This run with experts of that size, in the memory that its resident weights leave; absent
  /// where that cannot hold them.
  std::optional<Predicted> predicted;
};

/// Something that the user can do.
struct Advice {
  std::string change;  // "more memory: 34.0 MiB instead of 12.5 MiB"
  std::string command; // Tries it; empty where no command does.
  std::string basis;   // How the gain was computed.
  bool needsHardware = false;
  Origin origin = Origin::kDerived;
  Predicted predicted;
};

struct WhatIf {
  std::vector<BudgetPoint> budgets; // Ascending; the run's own is not among them.
  size_t knee = 0;                  // Index of the smallest budget near the best.
  std::vector<DiskPoint> disks;
  std::vector<WidthPoint> widths;
  std::vector<CandidatePoint> candidates; // Fewest bytes first; none without the chosen one.
  std::vector<Advice> advice; // What helps, the best first: at first what needs no other hardware.
  std::string unsearched;     // Why no other plan was searched; empty: it was.
};

/// A gain that is worth a change. Repeated runs differ by about as much.
constexpr double kLeastGain = 0.02;

/// The knee of a curve of budgets is the first budget with this fraction of the best speed.
constexpr double kNearBest = 0.95;

moert::Result<WhatIf> askWhatIf(const RunSimulation &simulation, const Session &session);

/// The run's decode speed as measured.
double measuredTokensPerSecond(const RunRecord &run);
/// Bytes read per decoded token.
double measuredBytesPerToken(const RunRecord &run);

/// Bytes of the process besides the expert cache, as the run accounted for them.
uint64_t fixedBytes(const RunSimulation &simulation);

/// Pages of a pool for this fraction of the experts, and at least the largest record.
uint64_t pagesForFraction(const RunSimulation &simulation, double fraction);

/// "1.90 GB/s"
std::string shownRate(double bytesPerSecond);

} // namespace moec
