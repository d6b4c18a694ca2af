// moe-plan-memory (Passes.td): places for the buffers in the arena, and the proof that each plan's
// budget holds all that a run needs. Places are chosen by placeProgram().
#include "passes/Passes.h"

#include "compiler/ir/PlanAttrs.h"
#include "compiler/plan/BudgetPlan.h"
#include "passes/ExpandProgram.h"
#include "passes/Footprint.h"

#include "runtime/kernels/Kernels.h"

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

/// Puts the places of the function's future buffers at its beginning.
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
  moec::BudgetPlan planned = {plan.name,
                              plan.budgetBytes,
                              plan.contextTokens,
                              plan.prefillChunk,
                              {plan.transitPages, plan.quotaPages}};
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
  FailureOr<moert::ModelFootprint> footprint =
      footprintOf(module, static_cast<uint32_t>(pageBytes.getInt()));
  if (mlir::failed(footprint))
    return failure();
  const std::vector<moert::Plan> plans = plansOf(module);
  footprint->metadataBytes += measuredBytes;
  const moert::ModelFootprint model = moec::withPlans(*footprint, plans.size());
  for (const moert::Plan &plan : plans)
    if (failed(prove(plan, model)))
      return failure();
  return success();
}

void PlanMemory::runOnOperation() {
  if (threads == 0) {
    emitError(getOperation().getLoc(), "threads of at least 1 are expected");
    return signalPassFailure();
  }
  for (func::FuncOp function : getOperation().getOps<func::FuncOp>())
    if (failed(placeFunction(function)))
      return signalPassFailure();
  if (failed(provePlans()))
    signalPassFailure();
}

} // namespace mlir::moe
