// From a function on layers to a program of instructions whose buffers have no places yet. Both
// plan-memory, which finds the places, and lower-to-schedule, which uses them, expand with this, so
// that their buffers are the same in the same order.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::moe {

/// A program of the function's name, in no module. What has no instruction, and weights without a
/// format, are errors at the op.
FailureOr<OwningOpRef<ProgramOp>> expandProgram(func::FuncOp function);

/// The buffers of a program or of a function that plan-memory has seen, in order.
SmallVector<BufferOp> buffersOf(Block &block);

/// Gives every buffer of the program an offset, and returns the bytes per token of the arena.
uint64_t placeProgram(ProgramOp program);

} // namespace mlir::moe
