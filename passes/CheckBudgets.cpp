// moe-check-budgets (Passes.td): that each plan's budget holds everything that a run needs.
#include "passes/Passes.h"

#include "compiler/ir/PlanAttrs.h"
#include "compiler/plan/BudgetPlan.h"
#include "passes/Footprint.h"

#include "runtime/exec/Kernels.h"

namespace mlir::moe {

#define GEN_PASS_DEF_CHECKBUDGETSPASS
#include "passes/Passes.h.inc"

namespace {

class CheckBudgets : public impl::CheckBudgetsPassBase<CheckBudgets> {
public:
  using CheckBudgetsPassBase::CheckBudgetsPassBase;

  void runOnOperation() override;

private:
  LogicalResult prove(const moert::Plan &plan, const moert::ModelFootprint &model);
  LogicalResult provePlans();
};

} // namespace

LogicalResult CheckBudgets::prove(const moert::Plan &plan, const moert::ModelFootprint &model) {
  moec::BudgetPlan planned = {plan.name,         "",
                              plan.budgetBytes,  plan.contextTokens,
                              plan.prefillChunk, {plan.stagingPages, plan.quotaPages}};
  moec::PlannedUse use;
  use.contextBlock = moert::kKvBlockTokens;
  use.threads = threads;
  use.hasPaths = paths || hasPaths(getOperation());
  moert::Result<moert::MemoryAccount> account = moec::accountOf(model, planned, use);
  return account.isOk() ? success()
                        : emitError(getOperation().getLoc(), account.status().message());
}

LogicalResult CheckBudgets::provePlans() {
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

void CheckBudgets::runOnOperation() {
  if (threads == 0) {
    emitError(getOperation().getLoc(), "threads is 0, expected at least 1");
    return signalPassFailure();
  }
  if (failed(provePlans()))
    signalPassFailure();
}

} // namespace mlir::moe
