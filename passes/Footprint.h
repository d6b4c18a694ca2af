// What planning needs from the IR: the memory that a run of the model will need, which is the input
// of the budget's arithmetic (runtime/memory/MemoryBudget.h; the runtime repeats it with exact
// numbers when it loads the artifact), and the facts of the planner.
#pragma once

#include "runtime/memory/MemoryBudget.h"

#include "compiler/ir/MoeDialect.h"
#include "compiler/plan/ModelFacts.h"

namespace mlir::moe {

/// Bytes of every expert's record in the artifact, per MoE layer. Needs the formats of assign-bits.
FailureOr<SmallVector<SmallVector<uint64_t>>> recordBytesOf(ModuleOp module);

FailureOr<SmallVector<uint64_t>> recordBytesOf(MoeLayerOp layer);

/// The layers and records that the cache holds. Errors are emitted at the op, here and below.
FailureOr<moert::CacheShape> cacheShapeOf(ModuleOp module, uint32_t pageBytes);

/// The footprint of the model with the given page size. Needs the formats of assign-bits, and an
/// instruction for every layer op.
FailureOr<moert::ModelFootprint> footprintOf(ModuleOp module, uint32_t pageBytes);

/// The planner's facts of the module, whose functions are not lowered yet: it is described as the
/// artifact that it will become. Needs the same.
FailureOr<moec::ModelFacts> factsOf(ModuleOp module, uint32_t pageBytes);

} // namespace mlir::moe
