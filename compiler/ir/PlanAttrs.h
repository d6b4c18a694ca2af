// A module's plans as the runtime's plain data, which passes read and write.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include <vector>

namespace mlir::moe {

/// The module's plans; empty if it has none.
std::vector<moert::Plan> plansOf(ModuleOp module);
void setPlans(ModuleOp module, const std::vector<moert::Plan> &plans);

} // namespace mlir::moe
