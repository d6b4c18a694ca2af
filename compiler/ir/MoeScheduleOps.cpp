// Verifiers of programs. The instructions are checked by the format's own rules.
#include "compiler/ir/BuildProgram.h"

#include "mlir/IR/Builders.h"

namespace mlir::moe {

// Far beyond any arena; sums with the bytes of a buffer cannot overflow.
static constexpr int64_t kMaxOffset = int64_t(1) << 40;

LogicalResult BufferOp::verify() {
  int64_t offset = getOffset().value_or(0);
  if (offset < 0 || offset % static_cast<int64_t>(moert::kBufferAlignment) != 0)
    return emitOpError() << "at " << offset << ", expected a multiple of "
                         << moert::kBufferAlignment;
  if (offset > kMaxOffset)
    return emitOpError() << "at " << offset << ", expected at most " << kMaxOffset;
  if (!isa<ProgramOp>((*this)->getParentOp()) && !getBuffer().use_empty())
    return emitOpError("is used outside of a program, where it only declares an offset");
  return success();
}

void ProgramOp::build(OpBuilder &builder, OperationState &state, StringRef name) {
  state.getOrAddProperties<Properties>().setSymName(builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

LogicalResult ProgramOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getNumArguments() != 0)
    return emitOpError("expected no arguments: buffers are declared by moe.buffer");
  if (block.empty() || !isa<ExecHeadOp>(block.back()))
    return emitOpError("expected moe.exec.head at the end");
  bool hasStarted = false;
  for (Operation &op : block) {
    if (auto buffer = dyn_cast<BufferOp>(op)) {
      if (hasStarted)
        return buffer.emitOpError("expected before the first instruction");
      continue;
    }
    hasStarted = true;
    if (isa<ExecHeadOp>(op) && &op != &block.back())
      return op.emitOpError("expected at the end of the program only");
  }
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &) {
  return checkProgram(*this);
}

} // namespace mlir::moe
