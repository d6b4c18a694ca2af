// moe-bufferize (Passes.td): offsets of rows and scratch in the arena. PlaceBuffers chooses them
// from the declared roles of the instructions' fields.
#include "passes/Passes.h"

#include "compiler/ir/BuildProgram.h"
#include "passes/PlaceBuffers.h"

#include "llvm/ADT/SmallVectorExtras.h"

namespace mlir::moe {

#define GEN_PASS_DEF_BUFFERIZEPASS
#include "passes/Passes.h.inc"

namespace {

class Bufferize : public impl::BufferizePassBase<Bufferize> {
public:
  using BufferizePassBase::BufferizePassBase;

  void runOnOperation() override;
};

} // namespace

static LogicalResult bufferize(ProgramOp op) {
  removeOffsets(op);
  FailureOr<moert::Program> program = buildProgram(op);
  if (mlir::failed(program))
    return failure();
  placeProgram(*program);
  for (auto [each, instruction] : llvm::zip_equal(op.block(), program->instructions)) {
    SmallVector<size_t> written;
    moert::describe(instruction, [&](moert::FieldRole role, const char *, const auto &field) {
      if (isWritten(role) && static_cast<int32_t>(field) != moert::kNone)
        written.push_back(static_cast<size_t>(field));
    });
    llvm::sort(written); // Their order in moe.offsets.
    if (!written.empty())
      each.setAttr(kOffsetsAttr, DenseI64ArrayAttr::get(
                                     op.getContext(), llvm::map_to_vector(written, [&](size_t i) {
                                       return static_cast<int64_t>(program->buffers[i].offset);
                                     })));
  }
  return success();
}

void Bufferize::runOnOperation() {
  for (ProgramOp program : getOperation().getOps<ProgramOp>())
    if (failed(bufferize(program)))
      return signalPassFailure();
}

} // namespace mlir::moe
