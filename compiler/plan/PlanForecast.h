// What a plan is expected to do: a timed replay's figures per decoded token, beside what no plan
// can do better.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/TimedReplay.h"

#include <cstdint>

namespace moec {

/// As moert::Forecast.
struct PlanForecast {
  uint64_t tokens = 0;                          // Decoded ones of the trace.
  double tokenNs = 0, medianNs = 0, slowNs = 0; // Mean, median, 95% quantile.
  double hitRate = 0;                           // Of wanted experts.
  double presentRate = 0;                       // Hits, and guesses that had arrived.
  double bytesPerToken = 0;                     // Read; guesses included.
  double guessRecall = 0, guessPrecision = 0;   // Adopted: of misses, of guesses read.
  double leastBytesPerToken = 0;                // The best cache's of the whole pool.
  double boundNs = 0; // max(computing alone, these bytes at the device's best rate)
  Origin origin = Origin::kDerived;
};

/// Of a replay of the whole trace with these settings. Beside a cache that starts filled, the best
/// one does too, with what suits the trace best.
PlanForecast forecastOf(const PlanProblem &problem, const PlanSettings &settings,
                        const TimedResult &result);

/// A token's mean time if everything were in memory.
double computeNsPerToken(const PlanProblem &problem);

} // namespace moec
