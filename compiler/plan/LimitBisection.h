// The arithmetic of bisecting the knapsack's limit: from what was measured, which limit in nats is
// likely to bring the measured bound just to the threshold (step 4 of WidthSearch.h).
#pragma once

#include "compiler/plan/WidthTrials.h"

#include <optional>

namespace moec {

/// Between the largest limit that met the threshold and the smallest that did not; where there is
/// no such pair of the knapsack's yet, what other assignments are estimated to lose stands in.
/// Nothing: close enough. Of the knapsacks', in bytes or in seconds, those of one solver count.
std::optional<double> nextLimit(const WidthTrials &trials, const WidthProblem &estimates,
                                const std::string &solver);

} // namespace moec
