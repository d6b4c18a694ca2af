// Where a decode step guesses the experts of later layers.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::moe {

/// Whether guesses are made in the function: prefill wants nearly all experts anyway.
bool isGuessing(func::FuncOp function);

/// Behind each router of the function a `moe.predict` for each MoE layer that the function plays 1
/// to `ahead` further on; those that were there before are removed.
void placePredictors(func::FuncOp function, uint32_t ahead);

} // namespace mlir::moe
