// moe-place-predictors (Passes.td): inserts predictions of later layers' experts.
#include "passes/Passes.h"

#include "compiler/ir/BuildProgram.h"

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

/// The product that a route's scores come from. A cap keeps their order, but beside a bias of the
/// choice, where the prediction is approximate; which experts a mask leaves is not known ahead.
static LinearOp routerOf(RouteOp route) {
  Operation *op = route.getScores().getDefiningOp();
  while (isa_and_nonnull<MaskExpertsOp, ScaleOp, ApplyOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return dyn_cast_or_null<LinearOp>(op);
}

/// Inserts a `moe.predict` after each route for each of the MoE layers 1 to `ahead` further on.
static LogicalResult placePredictors(ProgramOp program, uint32_t ahead) {
  removeOffsets(program);
  for (auto old : llvm::make_early_inc_range(program.block().getOps<PredictOp>()))
    old.erase();
  llvm::StringMap<int64_t> numbers; // MoE layer numbers, from 0.
  for (auto [i, layer] : llvm::enumerate(program->getParentOfType<ModuleOp>().getOps<MoeLayerOp>()))
    numbers[layer.getSymName()] = static_cast<int64_t>(i);
  SmallVector<std::pair<RouteOp, LinearOp>> routers;
  for (RouteOp route : program.block().getOps<RouteOp>()) {
    LinearOp router = routerOf(route);
    if (!router)
      return route.emitOpError("takes scores that no moe.linear computes");
    routers.emplace_back(route, router);
  }
  OpBuilder builder(program.getContext());
  for (auto [i, each] : llvm::enumerate(routers)) {
    auto [from, here] = each;
    builder.setInsertionPointAfter(from);
    for (auto [to, router] : ArrayRef(routers).drop_front(i + 1)) {
      int64_t distance = numbers.lookup(to.getMoeLayer()) - numbers.lookup(from.getMoeLayer());
      if (distance < 1 || distance > ahead)
        continue;
      auto predict = PredictOp::create(builder, from.getLoc(), here.getSrc(), router.getWeight(),
                                       router.getBiasAttr(), to.getMoeLayer(),
                                       static_cast<uint32_t>(distance));
      if (Attribute layer = from->getAttr(kLayerAttr))
        predict->setAttr(kLayerAttr, layer);
    }
  }
  return success();
}

void PlacePredictors::runOnOperation() {
  ModuleOp module = getOperation();
  if (ahead > moert::kMostAhead) {
    emitError(module.getLoc()) << "predictions are placed " << ahead.getValue()
                               << " MoE layers ahead, expected at most " << moert::kMostAhead;
    return signalPassFailure();
  }
  // Prefill uses nearly all experts of every layer, so it has no predictions.
  for (ProgramOp program : module.getOps<ProgramOp>())
    if (program.getSymName() == "decode" && failed(placePredictors(program, ahead)))
      return signalPassFailure();
}

} // namespace mlir::moe
