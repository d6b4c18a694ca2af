// moe-allot-cache (Passes.td): one plan per budget. What a budget leaves for experts and how layers
// share it is computed by runtime/policy; here it is put together and refused with a location.
#include "passes/Passes.h"

#include "compiler/ir/MoeDialect.h"
#include "compiler/plan/BudgetPlan.h"
#include "passes/Footprint.h"

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
  PlanAttr attributeOf(const moec::BudgetPlan &plan);
};

} // namespace

// The largest page that wastes at most 1/50 of the largest record; slices are multiples of the
// smallest page, so that one never wastes anything.
static uint32_t pageBytesFor(uint64_t largestRecord) {
  for (uint32_t page = 64 * 1024; page > moert::kSliceAlignment; page /= 2)
    if ((moert::roundUp(largestRecord, page) - largestRecord) * 50 <= largestRecord)
      return page;
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
  uint64_t largest = moert::kSliceAlignment;
  for (const SmallVector<uint64_t> &layer : *records)
    largest = std::max(largest, *llvm::max_element(layer));
  return pageBytesFor(largest);
}

FailureOr<uint32_t> AllotCache::contextTokens(ModelAttr model) {
  if (context > model.getMaxPositions())
    return emitError(getOperation().getLoc())
           << "a context of " << context.getValue() << " tokens, the model has "
           << model.getMaxPositions() << " positions";
  return context != 0 ? static_cast<uint32_t>(context)
                      : std::min(moec::kDefaultContext, model.getMaxPositions());
}

PlanAttr AllotCache::attributeOf(const moec::BudgetPlan &plan) {
  const std::vector<uint32_t> &pages = plan.allotment.quotaPages;
  SmallVector<int64_t> quotas(pages.begin(), pages.end());
  return PlanAttr::get(&getContext(), plan.name, plan.budgetBytes, plan.contextTokens,
                       plan.prefillChunk, plan.allotment.transitPages,
                       DenseI64ArrayAttr::get(&getContext(), quotas));
}

void AllotCache::runOnOperation() {
  ModuleOp module = getOperation();
  auto model = module->getAttrOfType<ModelAttr>(kModelAttr);
  if (!model || prefillChunk == 0 || threads == 0) {
    emitError(module.getLoc(), model ? "a prefill chunk and threads of at least 1 are expected"
                                     : "the module has no 'moe.model'");
    return signalPassFailure();
  }
  FailureOr<uint32_t> tokens = contextTokens(model), page = choosePageBytes();
  if (failed(tokens) || failed(page))
    return signalPassFailure();
  FailureOr<moert::ModelFootprint> footprint = footprintOf(module, *page);
  if (mlir::failed(footprint))
    return signalPassFailure();
  const std::vector<std::string> asked(budgets.begin(), budgets.end());
  auto plans =
      moec::planBudgets(*footprint, asked, {*tokens, moert::kKvBlockTokens, prefillChunk, threads});
  if (!plans.isOk()) {
    emitError(module.getLoc(), plans.status().message());
    return signalPassFailure();
  }
  SmallVector<Attribute> attributes;
  for (const moec::BudgetPlan &plan : *plans)
    attributes.push_back(attributeOf(plan));
  Builder builder(&getContext());
  module->setAttr(kPageBytesAttr, builder.getI64IntegerAttr(*page));
  module->setAttr(kPlansAttr, builder.getArrayAttr(attributes));
}

} // namespace mlir::moe
