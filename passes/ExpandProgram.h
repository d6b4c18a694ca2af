// From a function on layers to a program of instructions whose buffers have no offsets yet.
// plan-memory, which assigns the offsets, and lower-to-schedule, which uses them, share this
// expansion, so that their buffers are the same in the same order.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::moe {

/// Returns a program with the function's name, outside any module. An op without an instruction and
/// a weight without a format are errors at the op.
FailureOr<OwningOpRef<ProgramOp>> expandProgram(func::FuncOp function);

} // namespace mlir::moe
