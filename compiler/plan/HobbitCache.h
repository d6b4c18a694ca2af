// What HOBBIT (arXiv 2411.01433, sections 3.3 and 3.4) fits on its calibration text: the weights of
// its eviction, how its cache is divided between the two precisions, and its depth of prediction.
#pragma once

#include "compiler/plan/PlanProblem.h"

#include <vector>

namespace moec {

/// Sets the weights of eviction and the part of upper slices to those that read the fewest bytes in
/// a replay of the trace; returns why. With the routers' scores and records that are read in part
/// the replay lowers and skips experts by the preset's miss rule. Without them it waits, the two
/// frequencies cannot be distinguished and get equal weights, and there is one pool. Settings that
/// verify() accepts.
std::vector<moert::PlanReason> fitHobbitCache(const PlanProblem &problem, PlanSettings &settings);

/// Settings that predict so many MoE layers ahead; 0: that prefetch nothing.
struct HobbitDepth {
  uint32_t ahead = 0;
  PlanSettings settings;
  std::vector<moert::PlanReason> fitted = {}; // By takeHobbitDepth().
};

/// Fits the cache of each, and takes the one that decodes fastest in a timed replay of the trace
/// under the same rule; later ones have to gain kSameTime. Adds why. At least one; settings that
/// verify() accepts.
PlanSettings takeHobbitDepth(const PlanProblem &problem, std::vector<HobbitDepth> depths,
                             std::vector<moert::PlanReason> &reasons);

} // namespace moec
