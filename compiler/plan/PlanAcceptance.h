// The last step of a search for a plan: what was decided on a part of the trace is held against the
// presets on the whole of it and on the part that nothing was decided on.
#pragma once

#include "compiler/plan/PlanRecipe.h"
#include "compiler/plan/PlanSearch.h"
#include "compiler/plan/PlanTrials.h"

#include <span>
#include <vector>

namespace moec {

struct Finalist {
  PlanRecipe recipe;
  std::vector<moert::PlanReason> decisions;
};

/// The decision about layers that the rule of the others does not prefetch.
inline constexpr const char *kUnprefetchedLayers = "layers not prefetched";

/// Each finalist is tried with a cache that starts empty and with one that starts with popular
/// experts. Of those that are as fast as every preset, on the whole and on the part that nothing
/// was decided on, the first that is not kSameTime slower than another one is taken: of the first
/// ones, up to `searched`, each has something added to the one before, the others are what the
/// search found nearly as good. If there is none, the best preset. A plan with
/// prefetching must be faster by kMinPrefetchGain. The whole deciding part counts for popularity.
SearchedPlan acceptPlan(const PlanProblem &problem, PlanTrials &trials,
                        std::span<const Finalist> finalists, size_t searched);

/// In ms: four significant digits below 1 s, whole milliseconds above: "12.34 ms", "12345 ms".
std::string timeText(double ns);

} // namespace moec
