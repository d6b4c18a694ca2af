// What a run of the model will need in memory, as far as the IR tells it: the input of the budget's
// arithmetic (runtime/policy/MemoryBudget.h), which the runtime repeats with exact numbers when it
// loads the artifact.
#pragma once

#include "runtime/memory/MemoryBudget.h"

#include "compiler/ir/MoeDialect.h"

namespace mlir::moe {

/// Bytes of every expert's record in the artifact, per MoE layer. Needs the formats of assign-bits.
FailureOr<SmallVector<SmallVector<uint64_t>>> recordBytesOf(ModuleOp module);

FailureOr<SmallVector<uint64_t>> recordBytesOf(MoeLayerOp layer);

/// What the cache has to hold. Errors are emitted where they are found, here and below.
FailureOr<moert::CacheShape> cacheShapeOf(ModuleOp module, uint32_t pageBytes);

/// The footprint of the model with the given page size. Needs the formats of assign-bits and layers
/// that there are instructions for.
FailureOr<moert::ModelFootprint> footprintOf(ModuleOp module, uint32_t pageBytes);

/// The same with every guess that place-predictors may place later on, so that a budget that was
/// filled up to the last page still holds then.
FailureOr<moert::ModelFootprint> footprintWithPredictors(ModuleOp module, uint32_t pageBytes);

} // namespace mlir::moe
