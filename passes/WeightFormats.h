// The formats that moe-assign-bits gave the weights, for the passes that need them.
#pragma once

#include "compiler/ir/MoeDialect.h"

namespace mlir::moe {

/// The format of a weight that `op` uses; an error if it has none.
FailureOr<FormatAttr> formatOf(Operation *op, WeightOp weight);

/// The format of a layer's first slice, if all others need the same input; an error otherwise.
FailureOr<FormatAttr> commonFormat(ExpertsOp op, MoeLayerOp layer);

} // namespace mlir::moe
