#include "passes/QuantizeInputs.h"

#include "compiler/ir/BuildProgram.h"

#include "mlir/IR/Builders.h"

namespace mlir::moe {

LogicalResult quantizeInputs(ProgramOp program) {
  removeOffsets(program);
  for (QuantizeOp earlier : llvm::make_early_inc_range(program.block().getOps<QuantizeOp>())) {
    earlier.getDst().replaceAllUsesWith(earlier.getSrc());
    earlier.erase();
  }
  OpBuilder builder(program.getContext());
  return forEachInput(program, [&](OpOperand &input, const moert::Shape &needed) {
    if (!isQuantized(needed.kind))
      return;
    Operation *op = input.getOwner();
    builder.setInsertionPoint(op);
    auto type = RowType::get(builder.getContext(), static_cast<BufferKind>(needed.kind),
                             static_cast<uint32_t>(needed.width), needed.group,
                             cast<RowType>(input.get().getType()).getRows());
    auto copy = QuantizeOp::create(builder, op->getLoc(), type, input.get());
    if (Attribute layer = op->getAttr(kLayerAttr))
      copy->setAttr(kLayerAttr, layer);
    input.set(copy);
  });
}

} // namespace mlir::moe
