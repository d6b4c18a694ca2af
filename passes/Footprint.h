// What a run of the model will need in memory, as far as the IR tells it: the input of the budget's
// arithmetic (runtime/policy/MemoryBudget.h), which the runtime repeats with exact numbers when it
// loads the artifact.
#pragma once

#include "runtime/policy/MemoryBudget.h"

#include "mlir/IR/BuiltinOps.h"

namespace mlir::moe {

/// Bytes of every expert's record in the artifact, per MoE layer. Needs the formats of assign-bits.
FailureOr<SmallVector<SmallVector<uint64_t>>> recordBytesOf(ModuleOp module);

/// The footprint of the model with the given page size. Errors (no formats, layers without
/// instructions) are emitted where they are found.
FailureOr<moert::ModelFootprint> footprintOf(ModuleOp module, uint32_t pageBytes);

} // namespace mlir::moe
