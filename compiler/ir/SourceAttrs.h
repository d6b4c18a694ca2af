// Sources of weights: how the checkpoint stores them, and the shortest form for a layer's experts.
#pragma once

#include "compiler/import/StoredType.h"
#include "compiler/ir/MoeDialect.h"

namespace mlir::moe {

WeightKind kindOf(moec::StoredType type);

/// One source for all experts, if they are numbered in the tensors' names or stacked in one tensor;
/// otherwise one source per expert.
SmallVector<SourceAttr> compact(ArrayRef<SourceAttr> sources);

} // namespace mlir::moe
