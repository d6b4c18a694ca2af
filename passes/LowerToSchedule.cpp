// moe-lower-to-schedule (Passes.td): functions on layers become programs of instructions.
// ExpandProgram has the expansion of each op.
#include "passes/Passes.h"

#include "compiler/ir/MoeDialect.h"
#include "passes/ExpandProgram.h"
#include "passes/PlaceBuffers.h"

namespace mlir::moe {

#define GEN_PASS_DEF_LOWERTOSCHEDULEPASS
#include "passes/Passes.h.inc"

namespace {

class LowerToSchedule : public impl::LowerToSchedulePassBase<LowerToSchedule> {
public:
  using LowerToSchedulePassBase::LowerToSchedulePassBase;

  void runOnOperation() override;
};

} // namespace

/// Copies the offsets that plan-memory assigned, if it has run.
static LogicalResult takePlaces(func::FuncOp function, ProgramOp program) {
  SmallVector<BufferOp> planned = buffersOf(function.getBody().front()),
                        needed = buffersOf(program.getBody().front());
  if (planned.empty())
    return success();
  bool isSame = planned.size() == needed.size();
  for (size_t i = 0; isSame && i < needed.size(); ++i)
    isSame = planned[i].getType() == needed[i].getType();
  if (!isSame)
    return function.emitOpError("has buffers that were planned for other instructions: run "
                                "moe-plan-memory again");
  for (auto [from, to] : llvm::zip_equal(planned, needed))
    to.setOffsetAttr(from.getOffsetAttr());
  return success();
}

void LowerToSchedule::runOnOperation() {
  ModuleOp module = getOperation();
  for (func::FuncOp function : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
    FailureOr<OwningOpRef<ProgramOp>> program = expandProgram(function);
    if (failed(program) || failed(takePlaces(function, program->get())))
      return signalPassFailure();
    mergePlaces(program->get());
    OpBuilder(function).insert(program->release());
    function.erase();
  }
}

} // namespace mlir::moe
