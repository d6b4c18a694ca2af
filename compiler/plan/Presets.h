// The published systems as solvers of a plan's problem: what PresetRules.h says of their caches,
// and what their papers say of prefetches, start and numbers, worked out for a device and a trace.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/PresetRules.h"

namespace moec {

/// A preset's settings with their reasons; `auto` is PlanSearch.h's, what comes here without a
/// search is its rules alone.
///
/// Prefetches are counted by withCounts(). With EdgeMoE the likeliest absent experts of a layer are
/// read while the one before it is executed, and the buffer is filled layer by layer before
/// anything was used. With Fate reading begins where the gate spoke, and ends with the next layer's
/// turn; the time is T = t_moe + t_attn + t_gate (section 4.3).
///
/// The problem is one that check() accepts; verify() accepts the settings.
PlannedSettings planPreset(Preset preset, const PlanProblem &problem);

/// Why the preset's cache is shared and let go as it is: what a paper says is stated, a choice of
/// this project's own without a trace is an assumption.
PlanDecision allotmentDecision(Preset preset);
PlanDecision evictionDecision(Preset preset, moert::EvictionPolicy policy);
/// Why nothing is prefetched: by definition, or where the preset would have, for want of a search.
PlanDecision noPrefetchDecision(Preset preset);

/// Experts that can be read in the time from one MoE layer's router to the next one's, this layer
/// being the later one, if everything wanted is in memory: Fate's n. 0 for the first layer.
double readsBetweenRouters(const PlanProblem &problem, uint32_t layer);

} // namespace moec
