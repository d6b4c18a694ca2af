// moe-place-predictors (Passes.td): inserts predictions of later layers' experts.
#include "passes/Passes.h"

#include "compiler/ir/MoeDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace mlir::moe {

#define GEN_PASS_DEF_PLACEPREDICTORSPASS
#include "passes/Passes.h.inc"

namespace {

class PlacePredictors : public impl::PlacePredictorsPassBase<PlacePredictors> {
public:
  using PlacePredictorsPassBase::PlacePredictorsPassBase;

  void runOnOperation() override;
};

} // namespace

/// Prefill uses nearly all experts of every layer, so it has no predictions.
static bool isPrefetching(func::FuncOp function) {
  return function.getSymName() == "decode" && !function.isDeclaration();
}

/// Inserts a `moe.predict` after each router for each of the MoE layers 1 to `ahead` further on.
static void placePredictors(func::FuncOp function, uint32_t ahead) {
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
}

} // namespace mlir::moe
