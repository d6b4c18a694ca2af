// What HOBBIT (arXiv 2411.01433, section 3.4) fits on its calibration text: the weights of its
// eviction, and how its cache is divided between the two precisions.
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

} // namespace moec
