// One moe.program as the runtime's plain data, instruction by instruction.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include "runtime/format/Schedule.h"

namespace moec {

/// Symbols become their numbers: the how-many-th of their kind in the module. Buffers without a
/// place are an error.
mlir::FailureOr<moert::Program> buildProgram(mlir::moe::ProgramOp program);

} // namespace moec
