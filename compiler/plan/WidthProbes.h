// Probes: what a squared error of each group of items costs in nats per token, learnt by measuring
// each group alone at few bits (step 3 of WidthSearch.h).
#pragma once

#include "compiler/plan/WidthTrials.h"

namespace moec {

/// The input's problem with losses in nats per token, as the probes give them. Each group is probed
/// at `bits`, directly probed items at each of their options. Refuses groups beyond the
/// measurements that are left.
moert::Result<WidthProblem> probeGroups(WidthTrials &trials, double bits);

} // namespace moec
