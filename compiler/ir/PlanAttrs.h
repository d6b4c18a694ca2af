// Plans as attributes and as the runtime's plain data: passes read and write the plain data.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include <vector>

namespace mlir::moe {

/// The plan of the attribute, without a forecast: the IR does not hold forecasts.
moert::Plan toPlan(PlanAttr plan);
PlanAttr toPlanAttr(MLIRContext *context, const moert::Plan &plan);

/// The module's plans; empty if it has none.
std::vector<moert::Plan> plansOf(ModuleOp module);
void setPlans(ModuleOp module, const std::vector<moert::Plan> &plans);

} // namespace mlir::moe
