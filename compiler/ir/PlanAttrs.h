// A module's plans, and other attributes of it, as the runtime's plain data.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include <vector>

namespace mlir::moe {

/// The module's plans; empty if it has none.
std::vector<moert::Plan> plansOf(ModuleOp module);
void setPlans(ModuleOp module, const std::vector<moert::Plan> &plans);

/// The data of another attribute of the module; nullopt: it has none.
template <typename AttrT> auto dataOf(ModuleOp module, StringRef name) {
  auto attribute = module->getAttrOfType<AttrT>(name);
  return attribute ? std::optional(attribute.getData()) : std::nullopt;
}

} // namespace mlir::moe
