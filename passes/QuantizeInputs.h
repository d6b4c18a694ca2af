// The quantized copies of rows that products with quantized weights read.
#pragma once

#include "compiler/ir/MoeDialect.h"

namespace mlir::moe {

/// Gives every instruction inputs of the kind that the formats of its weights need: a
/// `moe.quantize` directly before it, in place of those of earlier formats.
LogicalResult quantizeInputs(ProgramOp program);

} // namespace mlir::moe
