// moe-plan-memory (Passes.td): places for the buffers in the arena, and the proof that each plan's
// budget holds all that a run needs. Places are chosen by placeProgram().
#include "passes/Passes.h"

#include "compiler/ir/MoeDialect.h"
#include "passes/ExpandProgram.h"
#include "passes/Footprint.h"

#include "runtime/base/Size.h"

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
  moert::RunRequest request = plannedRun(plan.getContextTokens(), plan.getPrefillChunk(), threads);
  moert::ProcessFootprint process = typicalProcess();
  uint64_t poolPages = plan.getTransitPages();
  for (int64_t pages : plan.getQuotaPages().asArrayRef())
    poolPages += static_cast<uint64_t>(pages);
  moert::MemoryAccount account =
      moert::accountMemory(model, process, request, plan.getPrefillChunk(), poolPages);
  if (plan.getBudgetBytes() != 0 && account.totalBytes() > plan.getBudgetBytes()) {
    uint64_t smallest = moert::smallestAccount(model, process, request).totalBytes();
    auto error = emitError(getOperation().getLoc())
                 << "plan '" << plan.getName() << "' needs " << account.totalBytes() << " bytes ("
                 << moert::formatBytes(account.totalBytes()) << ") of a budget of "
                 << plan.getBudgetBytes() << "; the smallest budget that works is " << smallest
                 << " bytes (" << moert::formatBytes(smallest) << ")";
    for (const moert::MemoryItem &item : account.items)
      error.attachNote() << item.name << ": " << item.bytes << " bytes";
    return failure();
  }
  Builder builder(&getContext());
  SmallVector<Attribute> items;
  SmallVector<int64_t> bytes;
  for (const moert::MemoryItem &item : account.items) {
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
