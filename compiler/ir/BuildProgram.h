// Converts programs to the runtime's plain data, by the declaration of each instruction in
// Instruction.h: buffers that are read are the op's operands in the same order, buffers that are
// written its results, and every other field is the attribute of its name. The op says nothing of
// scratch, which the shape rules (ProgramCheck.h) give.
#pragma once

#include "compiler/ir/MoeDialect.h"

#include "runtime/format/Artifact.h"
#include "runtime/format/BufferWalk.h"

namespace mlir::moe {

/// The shapes and formats of the module's weights, layers, KV slots and ropes, each in the order of
/// its symbols. A weight or an expert that has no format yet is f32.
moert::Artifact symbolsOf(ModuleOp module);

/// A symbol becomes its position among the symbols of its kind. Each row and scratch is a buffer in
/// the order of the ops; once it has an offset, those of one type at one offset are the same. A
/// missing symbol is an error at the op.
FailureOr<moert::Program> buildProgram(ProgramOp program);

/// Adds the program and, from its routes, the layers' top-k (MoeLayer::topK).
void addProgram(moert::Program program, moert::Artifact &artifact);

/// Checks each instruction with the rules of the format: kinds and widths of its operands, and,
/// where rows have offsets, that values are not overwritten before they are read.
LogicalResult checkProgram(ProgramOp program);

/// True for fields that are operands of the op.
constexpr bool isInput(moert::FieldRole role) {
  return role == moert::FieldRole::kRead || role == moert::FieldRole::kReadInPlace ||
         role == moert::FieldRole::kUpdate;
}

/// Whether moe-bufferize has run.
bool isBufferized(ProgramOp program);
/// Takes the offsets of other instructions away, before some are added or removed.
void removeOffsets(ProgramOp program);

/// Calls `visit` with each operand that an instruction reads and with what it has to be. It may
/// give the op another operand and insert ops before it.
LogicalResult forEachInput(ProgramOp program,
                           llvm::function_ref<void(OpOperand &, const moert::Shape &)> visit);

} // namespace mlir::moe
