// The memory that a run of the model will need, as far as it follows from the IR: the input of the
// budget's arithmetic (runtime/policy/MemoryBudget.h), which the runtime repeats with exact numbers
// when it loads the artifact.
#pragma once

#include "runtime/memory/MemoryBudget.h"

#include "compiler/ir/MoeDialect.h"

namespace mlir::moe {

/// Bytes of every expert's record in the artifact, per MoE layer. Needs the formats of assign-bits.
FailureOr<SmallVector<SmallVector<uint64_t>>> recordBytesOf(ModuleOp module);

FailureOr<SmallVector<uint64_t>> recordBytesOf(MoeLayerOp layer);

/// The layers and records that the cache holds. Errors are emitted at the op, here and below.
FailureOr<moert::CacheShape> cacheShapeOf(ModuleOp module, uint32_t pageBytes);

/// The footprint of the model with the given page size. Needs the formats of assign-bits, and an
/// instruction for every layer op.
FailureOr<moert::ModelFootprint> footprintOf(ModuleOp module, uint32_t pageBytes);

/// The same with every prediction that place-predictors may insert later, so that a budget that was
/// used up to the last page remains sufficient.
FailureOr<moert::ModelFootprint> footprintWithPredictors(ModuleOp module, uint32_t pageBytes);

} // namespace mlir::moe
