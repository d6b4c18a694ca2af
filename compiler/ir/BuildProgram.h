// Converts the IR of a schedule to the runtime's plain data: the symbols of a module, and a
// moe.program whose instructions refer to them. Fields are converted by their declaration in
// Instruction.h: buffers are the op's operands in the same order, every other field is the
// attribute of its name.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include "runtime/format/Artifact.h"

namespace mlir::moe {

/// The shapes and formats of the module's weights, layers, KV slots and ropes, each in the order of
/// its symbols. A weight or an expert that has no format yet is float or has no slices.
moert::Artifact symbolsOf(ModuleOp module);

/// A symbol becomes its position among the symbols of its kind. A missing symbol, a weight without
/// a format and a buffer without an offset are errors at the op.
FailureOr<moert::Program> buildProgram(ProgramOp program);

/// Adds the program and, from its routes, the layers' top-k (MoeLayer::topK).
void addProgram(moert::Program program, moert::Artifact &artifact);

/// Checks each instruction with the rules of the format: kinds and widths of its operands, and,
/// where buffers have offsets, that values are not overwritten before they are read.
LogicalResult checkProgram(ProgramOp program);

} // namespace mlir::moe
