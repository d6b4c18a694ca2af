// Converts one moe.program to the runtime's plain data, instruction by instruction.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include "runtime/format/Schedule.h"

namespace moec {

/// A symbol becomes its position among the symbols of its kind in the module. A buffer without an
/// offset is an error.
mlir::FailureOr<moert::Program> buildProgram(mlir::moe::ProgramOp program);

} // namespace moec
