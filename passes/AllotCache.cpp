// moe-allot-cache (Passes.td): one plan per budget. runtime/policy computes the pages that a budget
// leaves and the quotas of the layers; this pass collects its input and locates its errors.
#include "passes/Passes.h"

#include "compiler/ir/PlanAttrs.h"
#include "compiler/plan/BudgetPlan.h"
#include "passes/Footprint.h"
#include "passes/PlanReasons.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/kernels/Kernels.h"

namespace mlir::moe {

#define GEN_PASS_DEF_ALLOTCACHEPASS
#include "passes/Passes.h.inc"

namespace {

class AllotCache : public impl::AllotCachePassBase<AllotCache> {
public:
  using AllotCachePassBase::AllotCachePassBase;

  void runOnOperation() override;

private:
  FailureOr<uint32_t> choosePageBytes();
  FailureOr<uint32_t> contextTokens(ModelAttr model);
  FailureOr<moec::PlannedUse> plannedUse(ModelAttr model);
};

} // namespace

// The largest page size that wastes at most 1/50 of all records' bytes. Slices are multiples of the
// smallest page, which therefore wastes nothing.
static uint32_t pageBytesFor(ArrayRef<SmallVector<uint64_t>> recordsOfLayers) {
  for (uint32_t page = 64 * 1024; page > moert::kSliceAlignment; page /= 2) {
    uint64_t all = 0, wasted = 0;
    for (const SmallVector<uint64_t> &records : recordsOfLayers)
      for (uint64_t bytes : records) {
        all += bytes;
        wasted += moert::roundUp(bytes, page) - bytes;
      }
    if (wasted <= all / 50)
      return page;
  }
  return moert::kSliceAlignment;
}

FailureOr<uint32_t> AllotCache::choosePageBytes() {
  if (pageBytes != 0) {
    if (!llvm::isPowerOf2_32(pageBytes) || pageBytes < 4096 || pageBytes > 1 << 20)
      return emitError(getOperation().getLoc())
             << "a page of " << pageBytes.getValue()
             << " bytes, expected a power of two from 4 KiB to 1 MiB";
    return static_cast<uint32_t>(pageBytes);
  }
  FailureOr<SmallVector<SmallVector<uint64_t>>> records = recordBytesOf(getOperation());
  if (failed(records))
    return failure();
  return pageBytesFor(*records);
}

FailureOr<uint32_t> AllotCache::contextTokens(ModelAttr model) {
  if (context > model.getMaxPositions())
    return emitError(getOperation().getLoc())
           << "a context of " << context.getValue() << " tokens, the model has "
           << model.getMaxPositions() << " positions";
  return context != 0 ? static_cast<uint32_t>(context)
                      : std::min(moec::kDefaultContext, model.getMaxPositions());
}

static moert::Plan presetPlan(const moec::BudgetPlan &from) {
  moert::Plan plan;
  plan.name = from.name;
  plan.budgetBytes = from.budgetBytes;
  plan.prefillChunk = from.prefillChunk;
  plan.contextTokens = from.contextTokens;
  plan.stagingPages = from.allotment.stagingPages;
  plan.quotaPages = from.allotment.quotaPages;
  plan.preset = moec::presetName(from.preset);
  plan.rules = moec::rulesOf(from.preset);
  addCacheReasons(from.preset, plan);
  return plan;
}

FailureOr<moec::PlannedUse> AllotCache::plannedUse(ModelAttr model) {
  FailureOr<uint32_t> tokens = contextTokens(model);
  if (failed(tokens))
    return failure();
  moec::PlannedUse use{*tokens, moert::kKvBlockTokens, prefillChunk, threads, {}, paths};
  for (const std::string &name : presets) {
    moert::Result<moec::Preset> preset = moec::presetOf(name);
    if (!preset.isOk())
      return emitError(getOperation().getLoc(), preset.status().message());
    use.presets.push_back(*preset);
  }
  if (use.presets.empty())
    use.presets.push_back(moec::Preset::kAuto);
  return use;
}

void AllotCache::runOnOperation() {
  ModuleOp module = getOperation();
  auto model = module->getAttrOfType<ModelAttr>(kModelAttr);
  if (!model || prefillChunk == 0 || threads == 0) {
    emitError(module.getLoc(), model ? "prefill-chunk or threads is 0, expected at least 1"
                                     : "the module has no 'moe.model'");
    return signalPassFailure();
  }
  FailureOr<moec::PlannedUse> use = plannedUse(model);
  FailureOr<uint32_t> page = choosePageBytes();
  if (failed(use) || failed(page))
    return signalPassFailure();
  FailureOr<moert::ModelFootprint> footprint = footprintWithPredictors(module, *page);
  if (mlir::failed(footprint))
    return signalPassFailure();
  const std::vector<std::string> asked(budgets.begin(), budgets.end());
  footprint->metadataBytes += measuredBytes;
  auto budgeted = moec::planBudgets(*footprint, asked, *use);
  if (!budgeted.isOk()) {
    emitError(module.getLoc(), budgeted.status().message());
    return signalPassFailure();
  }
  std::vector<moert::Plan> plans;
  for (const moec::BudgetPlan &plan : *budgeted)
    plans.push_back(presetPlan(plan));
  module->setAttr(kPageBytesAttr, Builder(&getContext()).getI64IntegerAttr(*page));
  setPlans(module, plans);
}

} // namespace mlir::moe
