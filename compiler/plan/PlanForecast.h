// What a plan is expected to do: a timed replay's figures per decoded token, with the bounds that
// no plan can beat.
//
// A forecast is made on steps of the trace that decided nothing of the plan: not its settings, nor
// the tables that its predictors use. The steps before them fill the cache.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "runtime/base/Status.h"
#include "runtime/policy/Plan.h"

#include <cstddef>

namespace moec {

/// For the trace's steps from `fromStep` on, on a device that the caller names in the result.
/// Refuses what replayInTime() refuses.
moert::Result<moert::Forecast> forecastOf(const PlanProblem &problem, const PlanSettings &settings,
                                          size_t fromStep = 0);

/// A token's mean time if everything were in memory, of the steps from `fromStep` on.
double computeNsPerToken(const PlanProblem &problem, size_t fromStep = 0);

} // namespace moec
