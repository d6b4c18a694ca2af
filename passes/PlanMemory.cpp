// moe-plan-memory (Passes.td): places for the buffers in the arena, and the proof that each plan's
// budget holds all that a run needs. Places are chosen by placeProgram().
#include "passes/Passes.h"

#include "compiler/ir/MoeDialect.h"
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
  FailureOr<AccountAttr> prove(PlanAttr plan, const moert::ModelFootprint &model);
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

FailureOr<AccountAttr> PlanMemory::prove(PlanAttr plan, const moert::ModelFootprint &model) {
  moec::BudgetPlan planned = {plan.getName().str(),
                              plan.getBudgetBytes(),
                              plan.getContextTokens(),
                              plan.getPrefillChunk(),
                              {plan.getTransitPages(), {}}};
  for (int64_t pages : plan.getQuotaPages().asArrayRef())
    planned.allotment.quotaPages.push_back(static_cast<uint32_t>(pages));
  moec::PlannedUse use;
  use.contextBlock = moert::kKvBlockTokens;
  use.threads = threads;
  moert::Result<moert::MemoryAccount> account = moec::accountOf(model, planned, use);
  if (!account.isOk())
    return emitError(getOperation().getLoc(), account.status().message());
  Builder builder(&getContext());
  SmallVector<Attribute> items;
  SmallVector<int64_t> bytes;
  for (const moert::MemoryItem &item : account->items) {
    items.push_back(builder.getStringAttr(item.name));
    bytes.push_back(static_cast<int64_t>(item.bytes));
  }
  return AccountAttr::get(&getContext(), plan.getName(), builder.getArrayAttr(items),
                          builder.getDenseI64ArrayAttr(bytes));
}

LogicalResult PlanMemory::provePlans() {
  ModuleOp module = getOperation();
  auto plans = module->getAttrOfType<ArrayAttr>(kPlansAttr);
  auto pageBytes = module->getAttrOfType<IntegerAttr>(kPageBytesAttr);
  if (!plans || !pageBytes)
    return success();
  FailureOr<moert::ModelFootprint> footprint =
      footprintOf(module, static_cast<uint32_t>(pageBytes.getInt()));
  if (mlir::failed(footprint))
    return failure();
  SmallVector<Attribute> accounts;
  for (PlanAttr plan : plans.getAsRange<PlanAttr>()) {
    FailureOr<AccountAttr> account = prove(plan, *footprint);
    if (failed(account))
      return failure();
    accounts.push_back(*account);
  }
  module->setAttr(kAccountsAttr, ArrayAttr::get(&getContext(), accounts));
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
