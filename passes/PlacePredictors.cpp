// moe-place-predictors (Passes.td): inserts predictions of later layers' experts, and chooses the
// predictions that each plan uses.
#include "passes/Passes.h"

#include "compiler/ir/PlanAttrs.h"
#include "passes/PlanReasons.h"
#include "passes/Predictors.h"

#include "mlir/IR/Builders.h"

namespace mlir::moe {

#define GEN_PASS_DEF_PLACEPREDICTORSPASS
#include "passes/Passes.h.inc"

namespace {

class PlacePredictors : public impl::PlacePredictorsPassBase<PlacePredictors> {
public:
  using PlacePredictorsPassBase::PlacePredictorsPassBase;

  void runOnOperation() override;

private:
  StringRef whyNot(const moert::PrefetchRule &rule) const;
  LogicalResult choosePredictors(moert::Plan &plan);
};

} // namespace

bool isPrefetching(func::FuncOp function) {
  return function.getSymName() == "decode" && !function.isDeclaration();
}

void placePredictors(func::FuncOp function, uint32_t ahead) {
  for (auto old : llvm::make_early_inc_range(function.getOps<PredictOp>()))
    old.erase();
  llvm::StringMap<int64_t> numbers; // MoE layer numbers, from 0.
  for (auto [i, layer] :
       llvm::enumerate(function->getParentOfType<ModuleOp>().getOps<MoeLayerOp>()))
    numbers[layer.getSymName()] = static_cast<int64_t>(i);
  auto routes = llvm::to_vector(function.getOps<RouteOp>());
  OpBuilder builder(function.getContext());
  for (auto [i, from] : llvm::enumerate(routes)) {
    builder.setInsertionPointAfter(from);
    for (RouteOp to : ArrayRef(routes).drop_front(i + 1)) {
      int64_t distance = numbers.lookup(to.getMoeLayer()) - numbers.lookup(from.getMoeLayer());
      if (distance < 1 || distance > ahead)
        continue;
      auto prefetch = PredictOp::create(builder, from.getLoc(), from.getInput(), to.getRouter(),
                                        to.getMoeLayerAttr(),
                                        builder.getI32IntegerAttr(static_cast<int32_t>(distance)));
      if (Attribute layer = from->getAttr(kLayerAttr))
        prefetch->setAttr(kLayerAttr, layer);
    }
  }
}

/// Why no layer can use a rule of a preset; empty: they can.
StringRef PlacePredictors::whyNot(const moert::PrefetchRule &rule) const {
  if (rule.predictor == moert::Predictor::kPaths && !paths)
    return "there is no activation-path table, which calibration makes: compile with "
           "--calibration-text or --calibration, or replan with --calibration";
  return rule.ahead > ahead ? "no prediction is placed that far ahead" : "";
}

LogicalResult PlacePredictors::choosePredictors(moert::Plan &plan) {
  moec::Preset preset = moec::Preset::kAuto;
  if (!plan.preset.empty()) {
    moert::Result<moec::Preset> found = moec::presetOf(plan.preset);
    if (!found.isOk())
      return emitError(getOperation()->getLoc(), found.status().message());
    preset = *found;
  }
  const moert::PrefetchRule rule = moec::predictorOf(preset);
  const StringRef why = whyNot(rule);
  plan.prefetches.clear();
  if (rule.predictor != moert::Predictor::kOff && why.empty()) {
    plan.prefetches.resize(plan.quotaPages.size());
    for (size_t i = rule.ahead; i < plan.prefetches.size(); ++i)
      plan.prefetches[i] = rule;
  }
  addPredictorReason(preset, why, plan);
  removeReasons(kPrefetchReasons, plan); // Reasons of earlier rules.
  return success();
}

void PlacePredictors::runOnOperation() {
  ModuleOp module = getOperation();
  if (ahead > moert::kMostAhead) {
    emitError(module.getLoc()) << "predictions are placed " << ahead.getValue()
                               << " MoE layers ahead, expected at most " << moert::kMostAhead;
    return signalPassFailure();
  }
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (isPrefetching(function))
      placePredictors(function, ahead);
  if (!module->hasAttr(kPlansAttr))
    return;
  std::vector<moert::Plan> plans = plansOf(module);
  for (moert::Plan &plan : plans)
    if (failed(choosePredictors(plan)))
      return signalPassFailure();
  setPlans(module, plans);
}

} // namespace mlir::moe
