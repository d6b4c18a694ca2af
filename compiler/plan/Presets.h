// The published systems as solvers of a planning problem: the cache rules of PresetRules.h, and the
// prefetches and the start of their papers, computed for a device and a trace.
#pragma once

#include "compiler/plan/PlanProblem.h"
#include "compiler/plan/PresetRules.h"

namespace moec {

/// The settings of a preset. Those of `auto` are its rules alone: PlanSearch.h searches for others.
///
/// Prefetches are counted by withCounts(). EdgeMoE reads the likeliest absent experts of a layer
/// while the layer before it is executed, and fills the buffer layer by layer before anything was
/// used. Fate begins to read where the gate is computed, and ends with the next layer's router: the
/// time is T = t_moe + t_attn + t_gate (section 4.3).
///
/// The problem is one that check() accepts; verify() accepts the settings.
PlanSettings presetSettings(Preset preset, const PlanProblem &problem);

/// The same with their reasons (PlanReasons.h). `hobbitDepth`: how many MoE layers ahead preset
/// hobbit predicts, at most kMostAhead; 0: as many as the trace decodes fastest with.
PlannedSettings planPreset(Preset preset, const PlanProblem &problem, uint32_t hobbitDepth = 0);

/// Fate's n: the number of experts that can be read in the time from the router of the MoE layer
/// before to this layer's, if all demanded experts are resident. 0 for the first layer. Uses the
/// problem's sizes and costs, not its trace.
double readsBetweenRouters(const PlanProblem &problem, uint32_t layer);

} // namespace moec
