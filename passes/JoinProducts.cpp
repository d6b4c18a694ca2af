// moe-join-products (Passes.td): which instructions are computed in one parallel run, and where the
// reads of experts begin.
#include "passes/Passes.h"

#include "compiler/ir/MoeDialect.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace mlir::moe {

#define GEN_PASS_DEF_JOINPRODUCTSPASS
#include "passes/Passes.h.inc"

namespace {

/// Products of one row that follow each other, such as query, key and value, or predictions, are
/// computed together. moe-bufferize gives them results that lie apart.
template <typename OpT> struct Join : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    size_t together = 0; // Instructions of the run before this one.
    for (Operation *other = op->getPrevNode(); auto earlier = dyn_cast_or_null<OpT>(other);
         other = other->getPrevNode()) {
      if (earlier.getSrc() != op.getSrc() ||
          earlier->getAttr(kLayerAttr) != op->getAttr(kLayerAttr))
        break;
      ++together;
      if (!earlier.getJoined())
        break;
    }
    const bool isJoined = together > 0 && together < moert::kMostTogether;
    if (op.getJoined() == isJoined)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.setJoined(isJoined); });
    return success();
  }
};

class JoinProducts : public impl::JoinProductsPassBase<JoinProducts> {
public:
  using JoinProductsPassBase::JoinProductsPassBase;

  void runOnOperation() override;
};

} // namespace

/// The reads of a layer's experts begin after their route, and after the predictions that follow
/// it, which belong to the same layer pass, and the capacity, which drops experts.
static void beginReads(ProgramOp program) {
  Operation *last = nullptr; // The last route, prediction or capacity.
  const auto set = [&](bool begins) {
    if (auto route = dyn_cast_or_null<RouteOp>(last))
      route.setBeginsReads(begins);
    if (auto predict = dyn_cast_or_null<PredictOp>(last))
      predict.setBeginsReads(begins);
    if (auto capacity = dyn_cast_or_null<CapacityOp>(last))
      capacity.setBeginsReads(begins);
  };
  for (Operation &op : program.block()) {
    if (isa<ExpertsOp>(op))
      set(true);
    if (!isa<RouteOp, PredictOp, CapacityOp>(op))
      continue;
    last = &op;
    set(false);
  }
}

void JoinProducts::runOnOperation() {
  RewritePatternSet patterns(&getContext());
  patterns.add<Join<LinearOp>, Join<PredictOp>>(&getContext());
  walkAndApplyPatterns(getOperation(), std::move(patterns));
  for (ProgramOp program : getOperation().getOps<ProgramOp>())
    beginReads(program);
}

} // namespace mlir::moe
