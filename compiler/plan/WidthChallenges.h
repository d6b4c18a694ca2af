// The solvers beside the knapsack, measured: one width for all, and EdgeMoE's selection between two
// whole widths (step 5 of WidthSearch.h).
#pragma once

#include "compiler/plan/WidthTrials.h"

namespace moec {

/// Each of them at what the best so far costs, and on from there for as long as it meets the
/// threshold.
/// Does nothing while nothing meets it.
moert::Status challengeBest(WidthTrials &trials, const WidthProblem &estimates);

/// The published selection by itself: between the whole widths around the threshold, as many
/// of the list at the lower one as the threshold allows, found with at most `most` measurements.
moert::Status bisectEdgeMoe(WidthTrials &trials, const WidthProblem &estimates, uint32_t most);

} // namespace moec
