// The positions in a decode step where the experts of later layers are predicted.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::moe {

/// Whether the function has predictions: prefill uses nearly all experts of every layer.
bool isPrefetching(func::FuncOp function);

/// Inserts a `moe.predict` after each router of the function for each of its MoE layers 1 to
/// `ahead` further on; removes earlier ones.
void placePredictors(func::FuncOp function, uint32_t ahead);

} // namespace mlir::moe
