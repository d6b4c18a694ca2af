// How often statements about a sample's losses hold for populations with heavy tails: the bound of
// the mean, and that of a quantile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moert::test {

/// The confidences of acceptance tests: of `moert eval`, a first compile's two chains, a later
/// compile's two (AcceptanceTests.h).
constexpr double kTestedLevels[] = {0.95, 0.964, 0.996, 0.99985, 0.9999};
/// The numbers of units.
constexpr uint32_t kTestedUnits[] = {20, 40, 80, 200};

/// Losses of units of one window each, with mean 1.
struct TailFamily {
  const char *name;
  double sigma;                   // Lognormal; 0: normal or two-mode.
  double deviation;               // Normal.
  double rareFraction, rareTimes; // Two-mode: this fraction loses so many times as much.
};

std::span<const TailFamily> tailFamilies();

struct TailCoverage {
  double heavy = 0; // The fraction of samples with a heavy tail (TailCheck).
  double width = 0; // The bound's mean distance from the population's mean at 96.4%.
  /// Parallel to kTestedLevels: the fractions of samples whose bound of the mean, and of the 90%
  /// quantile, are at least the population's. Fewer units than the latter takes: -1.
  std::vector<double> mean, quantile;
};

TailCoverage measureTails(const TailFamily &family, uint32_t units, uint32_t draws, uint64_t seed);

} // namespace moert::test
