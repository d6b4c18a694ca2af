// moe-plan-memory (Passes.td): offsets of the buffers in the arena, and the check that each plan's
// budget holds everything that a run needs. placeProgram() chooses the offsets.
#include "passes/Passes.h"

#include "compiler/ir/PlanAttrs.h"
#include "compiler/plan/BudgetPlan.h"
#include "passes/ExpandProgram.h"
#include "passes/Footprint.h"
#include "passes/PlaceBuffers.h"

#include "runtime/exec/Kernels.h"

#include <numeric>

namespace mlir::moe {

#define GEN_PASS_DEF_PLANMEMORYPASS
#include "passes/Passes.h.inc"

namespace {

class PlanMemory : public impl::PlanMemoryPassBase<PlanMemory> {
public:
  using PlanMemoryPassBase::PlanMemoryPassBase;

  void runOnOperation() override;

private:
  LogicalResult prove(const moert::Plan &plan, const moert::ModelFootprint &model);
  LogicalResult provePlans();
};

} // namespace

/// Inserts the function's future buffers with their offsets at its beginning.
static LogicalResult placeFunction(func::FuncOp function) {
  FailureOr<OwningOpRef<ProgramOp>> program = expandProgram(function);
  if (failed(program))
    return failure();
  placeProgram(program->get());
  Block &block = function.getBody().front();
  for (BufferOp old : buffersOf(block))
    old.erase();
  OpBuilder builder = OpBuilder::atBlockBegin(&block);
  for (BufferOp buffer : buffersOf((*program)->getBody().front()))
    builder.clone(*buffer);
  return success();
}

LogicalResult PlanMemory::prove(const moert::Plan &plan, const moert::ModelFootprint &model) {
  moec::BudgetPlan planned = {plan.name,         "",
                              plan.budgetBytes,  plan.contextTokens,
                              plan.prefillChunk, {plan.stagingPages, plan.quotaPages}};
  moec::PlannedUse use;
  use.contextBlock = moert::kKvBlockTokens;
  use.threads = threads;
  use.hasPaths = paths;
  moert::Result<moert::MemoryAccount> account = moec::accountOf(model, planned, use);
  return account.isOk() ? success()
                        : emitError(getOperation().getLoc(), account.status().message());
}

LogicalResult PlanMemory::provePlans() {
  ModuleOp module = getOperation();
  auto pageBytes = module->getAttrOfType<IntegerAttr>(kPageBytesAttr);
  if (!module->hasAttr(kPlansAttr) || !pageBytes)
    return success();
  FailureOr<moert::Artifact> artifact = describe(module);
  if (mlir::failed(artifact))
    return failure();
  artifact->pageBytes = static_cast<uint32_t>(pageBytes.getInt());
  FailureOr<moert::ModelFootprint> footprint = footprintOf(module, *artifact);
  if (mlir::failed(footprint))
    return failure();
  const std::vector<moert::Plan> plans = plansOf(module);
  const moert::ModelFootprint model = moec::withPlans(*footprint, plans.size());
  for (const moert::Plan &plan : plans)
    if (failed(prove(plan, model)))
      return failure();
  return success();
}

void PlanMemory::runOnOperation() {
  if (threads == 0) {
    emitError(getOperation().getLoc(), "threads is 0, expected at least 1");
    return signalPassFailure();
  }
  for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
    if (failed(placeFunction(function)))
      return signalPassFailure();
  if (failed(provePlans()))
    signalPassFailure();
}

} // namespace mlir::moe
