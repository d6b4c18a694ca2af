// Plans in the IR and in the runtime's words: passes work on the plain data and put it back.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include <vector>

namespace mlir::moe {

/// What the attribute says; it has no forecast, which only a trace and a device give.
moert::Plan toPlan(PlanAttr plan);
PlanAttr toPlanAttr(MLIRContext *context, const moert::Plan &plan);

/// The module's plans; none where it has none.
std::vector<moert::Plan> plansOf(ModuleOp module);
void setPlans(ModuleOp module, const std::vector<moert::Plan> &plans);

} // namespace mlir::moe
