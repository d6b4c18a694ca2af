// How instructions are simplified: what MLIR's canonicalizer removes because the result has
// the same bits without it.
#include "compiler/ir/MoeDialect.h"

#include "mlir/IR/PatternMatch.h"

namespace mlir::moe {

namespace {

/// A scale by 1 without a weight gives its input.
struct RemoveScaleByOne : OpRewritePattern<ScaleOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ScaleOp op, PatternRewriter &rewriter) const override {
    if (op.getWeightAttr() || op.getFactor().convertToFloat() != 1)
      return failure();
    rewriter.replaceOp(op, op.getSrc());
    return success();
  }
};

} // namespace

void MoeDialect::getCanonicalizationPatterns(RewritePatternSet &patterns) const {
  patterns.add<RemoveScaleByOne>(getContext());
}

} // namespace mlir::moe
