// Converts the planned IR to the emitter's input, field by field. It decides nothing: a missing
// attribute or a row without an offset is an error.
#pragma once

#include "compiler/emit/EmitPlan.h"

#include "mlir/IR/BuiltinOps.h"

namespace moec {

/// Fills in the plan of a module on which all passes have run. Errors are emitted as diagnostics at
/// the op.
llvm::LogicalResult buildEmitPlan(mlir::ModuleOp module, EmitPlan &plan);

/// Fills in only what needs no plans or programs: the model, its weights, KV slots and rotations.
llvm::LogicalResult describeModel(mlir::ModuleOp module, EmitPlan &plan);

/// Adds only the programs.
llvm::LogicalResult addPrograms(mlir::ModuleOp module, moert::Artifact &artifact);

} // namespace moec
