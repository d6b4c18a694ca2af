// From the planned IR to what the emitter takes, field by field. Nothing is decided here: what is
// missing or not lowered is an error, and everything else was said by a pass.
#pragma once

#include "compiler/emit/EmitPlan.h"

#include "mlir/IR/BuiltinOps.h"

namespace moec {

/// Fills in the plan of a module that all passes have run on. Errors are emitted as diagnostics at
/// the op.
llvm::LogicalResult buildEmitPlan(mlir::ModuleOp module, EmitPlan &plan);

} // namespace moec
