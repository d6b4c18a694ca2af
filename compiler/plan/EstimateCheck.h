// How well the search's estimates order what single experts really cost.
#pragma once

#include "compiler/plan/WidthSearch.h"

namespace moec {

struct EstimateCheck {
  uint32_t experts = 0;       // Measured, each alone.
  double rankCorrelation = 0; // Spearman's, -1 to 1; equal values share their ranks' mean.
};

/// Spearman's rank correlation; 0 where one side is the same everywhere. Of two values at least.
double rankCorrelation(std::span<const double> a, std::span<const double> b);

/// Probes `count` items (all, if there are fewer), evenly spaced over those that are not probed
/// directly: each alone at its fewest bits, everything else at the most. Refuses fewer than 2.
moert::Result<EstimateCheck> checkEstimates(const WidthProblem &estimates,
                                            const std::vector<bool> &isProbedDirectly,
                                            uint32_t count, WidthJudge &judge);

} // namespace moec
