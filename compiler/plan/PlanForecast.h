// What a plan is expected to do: a timed replay's figures per decoded token, with the bounds that
// no plan can beat.
//
// A forecast is made on steps of the trace that decided nothing of the plan: not its settings, nor
// the tables that its predictors use. The steps before them fill the cache.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>

namespace moec {

/// As moert::Forecast.
struct PlanForecast {
  uint64_t tokens = 0;                              // Decoded ones that the figures are of.
  uint64_t traceTokens = 0;                         // Decoded ones of the trace.
  double tokenNs = 0, medianNs = 0, slowNs = 0;     // Mean, median, 95% quantile.
  double hitRate = 0;                               // Of wanted experts.
  double readyRate = 0;                             // Hits, and prefetches that had arrived.
  double bytesPerToken = 0;                         // Read; prefetches included.
  double prefetchRecall = 0, prefetchPrecision = 0; // Useful: of misses, of prefetches read.
  /// No cache of the pool's pages that holds the same experts when these tokens begin reads less
  /// while decoding them (BeladyBound.h).
  double leastBytesPerToken = 0;
  double boundNs = 0; // max(computing alone, these bytes at the device's best rate)
  Origin origin = Origin::kDerived;
};

/// Of the trace's steps from `fromStep` on. Refuses what replayInTime() refuses.
moert::Result<PlanForecast> forecastOf(const PlanProblem &problem, const PlanSettings &settings,
                                       size_t fromStep = 0);

/// A token's mean time if everything were in memory, of the steps from `fromStep` on.
double computeNsPerToken(const PlanProblem &problem, size_t fromStep = 0);

} // namespace moec
