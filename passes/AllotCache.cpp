// moe-allot-cache (Passes.td): one plan per budget. What a budget leaves for experts and how layers
// share it is computed by runtime/policy; here it is put together and refused with a location.
#include "passes/Passes.h"

#include "compiler/ir/MoeDialect.h"
#include "passes/Footprint.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Size.h"

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
  PlanAttr makePlan(StringRef name, uint64_t budgetBytes, uint32_t tokens, uint32_t chunk,
                    const moert::CacheAllotment &allotment);
  FailureOr<PlanAttr> planFor(StringRef budget, const moert::ModelFootprint &model,
                              uint32_t tokens);
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
  constexpr uint32_t kDefaultContext = 2048;
  if (context > model.getMaxPositions())
    return emitError(getOperation().getLoc())
           << "a context of " << context.getValue() << " tokens, the model has "
           << model.getMaxPositions() << " positions";
  return context != 0 ? static_cast<uint32_t>(context)
                      : std::min(kDefaultContext, model.getMaxPositions());
}

PlanAttr AllotCache::makePlan(StringRef name, uint64_t budgetBytes, uint32_t tokens, uint32_t chunk,
                              const moert::CacheAllotment &allotment) {
  SmallVector<int64_t> quotas(allotment.quotaPages.begin(), allotment.quotaPages.end());
  return PlanAttr::get(&getContext(), name, budgetBytes, tokens, chunk, allotment.transitPages,
                       DenseI64ArrayAttr::get(&getContext(), quotas));
}

FailureOr<PlanAttr> AllotCache::planFor(StringRef budget, const moert::ModelFootprint &model,
                                        uint32_t tokens) {
  moert::RunRequest request = plannedRun(tokens, std::min<uint32_t>(prefillChunk, tokens), threads);
  moert::Result<moert::Size> size = moert::parseSize(std::string_view(budget));
  if (!size.isOk())
    return emitError(getOperation().getLoc(), size.status().withContext("budget").message());
  std::optional<moert::MemoryAccount> account =
      moert::accountForBudget(model, typicalProcess(), request, {size->bytes, size->share});
  if (!account && size->share)
    return emitError(getOperation().getLoc())
           << "budget " << budget << ": a cache of that share of "
           << moert::formatBytes(model.expertPayloadBytes)
           << " of experts is smaller than the largest record, "
           << moert::formatBytes(moert::smallestPoolPages(model.cache) * model.pageBytes);
  if (account)
    return makePlan(budget, account->budgetBytes, tokens, account->prefillChunk,
                    moert::allotCache(model.cache, account->poolPages));
  return makePlan(budget, size->bytes, tokens, 1,
                  moert::allotCache(model.cache, moert::smallestPoolPages(model.cache)));
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
  SmallVector<PlanAttr> plans;
  for (const std::string &budget : budgets) {
    if (llvm::count(budgets, budget) > 1) {
      emitError(module.getLoc()) << "budget " << budget << " is given twice; plans are told by it";
      return signalPassFailure();
    }
    FailureOr<PlanAttr> plan = planFor(budget, *footprint, *tokens);
    if (failed(plan))
      return signalPassFailure();
    plans.push_back(*plan);
  }
  llvm::stable_sort(plans,
                    [](PlanAttr a, PlanAttr b) { return a.getBudgetBytes() > b.getBudgetBytes(); });
  if (plans.empty()) {
    uint64_t everything = moert::largestPoolPages(footprint->cache);
    plans.push_back(makePlan("default", 0, *tokens, std::min<uint32_t>(prefillChunk, *tokens),
                             moert::allotCache(footprint->cache, everything)));
  }
  Builder builder(&getContext());
  module->setAttr(kPageBytesAttr, builder.getI64IntegerAttr(*page));
  module->setAttr(kPlansAttr,
                  builder.getArrayAttr(SmallVector<Attribute>(plans.begin(), plans.end())));
}

} // namespace mlir::moe
