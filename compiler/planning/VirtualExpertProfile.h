// SwapMoE's profiling (Kong et al. 2023, section 3.4.2): random configurations of virtual experts
// are decoded on profiling texts beside the checkpoint at `source`, which labels them, and an
// accuracy model is fitted to what they lose.
#pragma once

#include "compiler/plan/AccuracyModel.h"
#include "compiler/plan/BudgetPlan.h"
#include "compiler/plan/ModelFacts.h"
#include "compiler/plan/VirtualExperts.h"
#include "compiler/planning/PlanJudge.h"
#include "compiler/session/Session.h"
#include "runtime/base/Status.h"
#include "runtime/policy/Plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

/// The paper does not say how many it measured.
constexpr uint32_t kProfiledConfigurations = 60;

/// Plans of preset swapmoe with so many random configurations, for an accuracy model of these
/// budgets: a part of all experts is drawn, from half of the smallest budget's to one and a half
/// times the largest one's, then each layer's around it, at least one expert. The same inputs give
/// the same plans.
std::vector<moert::Plan> randomConfigurations(const ModelFacts &facts, const PlanProblem &inputs,
                                              std::span<const BudgetPlan> budgets,
                                              uint32_t configurations, uint64_t seed);

/// Decodes the judge's texts with each configuration and fits a model to the nats per token that
/// they lose: KL(reference || configuration).
moert::Result<AccuracyModel> profileAccuracy(PlanJudge &judge, const ModelFacts &facts,
                                             std::span<const moert::Plan> configurations,
                                             const Session &session);

} // namespace moec
