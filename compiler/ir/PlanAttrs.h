// Plans as attributes and as the runtime's plain data: passes read and write the plain data.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include <optional>
#include <vector>

namespace mlir::moe {

/// Each other's inverse: the attribute holds everything that a plan holds.
moert::Plan toPlan(PlanAttr plan);
PlanAttr toPlanAttr(MLIRContext *context, const moert::Plan &plan);

/// `quantile` of #moe.plan_loss and #moe.measured; a null attribute: absent.
std::optional<moert::QuantileBound> toQuantile(ArrayAttr from);
ArrayAttr toQuantileAttr(MLIRContext *context, const std::optional<moert::QuantileBound> &from);
/// True of null and of two or three finite numbers.
bool isQuantile(ArrayAttr quantile);

/// The module's plans; empty if it has none.
std::vector<moert::Plan> plansOf(ModuleOp module);
void setPlans(ModuleOp module, const std::vector<moert::Plan> &plans);

} // namespace mlir::moe
