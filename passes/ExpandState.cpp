// The expansion of the mixers that keep a state.
#include "passes/Expander.h"
#include "passes/WeightFormats.h"

#include <cmath>

namespace mlir::moe {

FailureOr<Value> Expander::convolve(Operation *op, ConvolvedAttr convolved, Value row, bool silu) {
  if (failed(formatOf(op, symbol<WeightOp>(convolved.getTaps()))))
    return failure();
  execute<ExecConvolveOp>(op->getLoc(), row, row, convolved.getTaps(), convolved.getTail(),
                          builder.getBoolAttr(silu));
  return row;
}

LogicalResult Expander::expand(DeltaNetOp op) {
  Location loc = op.getLoc();
  Value input = bufferOf(op.getInput());
  SmallVector<Value> products; // First all products of the input, which are computed together.
  for (LinearAttr of : {op.getQuery().getLinear(), op.getKey().getLinear(),
                        op.getValue().getLinear(), op.getGate(), op.getDecay(), op.getWrite()}) {
    FailureOr<Value> product = linear(op, of, input, ProductRole::kAttention);
    if (failed(product))
      return failure();
    products.push_back(*product);
  }
  Value query = products[0], key = products[1], value = products[2], gate = products[3],
        decay = products[4], write = products[5];
  if (failed(convolve(op, op.getQuery(), query, true)) ||
      failed(convolve(op, op.getKey(), key, true)) ||
      failed(convolve(op, op.getValue(), value, true)))
    return failure();
  uint32_t keyDim = symbol<WeightOp>(op.getKey().getTaps()).rows() / op.getKeyHeads();
  for (Value row : {query, key})
    execute<ExecUnitNormOp>(loc, row, op.getEpsilonAttr(),
                            builder.getI32IntegerAttr(static_cast<int32_t>(keyDim)));
  execute<ExecDecayOp>(loc, decay, decay, op.getLogRateAttr(), op.getDecayBiasAttr());
  Value read = newRow(symbol<WeightOp>(op.getValue().getTaps()).rows());
  // Division and square root are correctly rounded on every machine.
  auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(keyDim)));
  execute<ExecDeltaRuleOp>(loc, query, key, value, decay, write, read, op.getStateAttr(),
                           op.getKeyHeadsAttr(), op.getHeadsAttr(), builder.getF32FloatAttr(scale));
  headNorm(loc, op.getOutputNorm(), read);
  execute<ExecActivateOp>(loc, gate, read, read, Activation::kSilu, FloatAttr(), FloatAttr());
  FailureOr<Value> output = linear(op, op.getOutput(), read, ProductRole::kAttention);
  if (failed(output))
    return failure();
  buffers[op.getResult()] = *output;
  return success();
}

LogicalResult Expander::expand(ShortConvolutionOp op) {
  Location loc = op.getLoc();
  Value input = bufferOf(op.getInput());
  auto product = [&](LinearAttr of, Value row) {
    return linear(op, of, row, ProductRole::kAttention);
  };
  FailureOr<Value> before = product(op.getBefore(), input), value = failure(), after = failure(),
                   output = failure();
  if (failed(before) || failed(value = product(op.getValue().getLinear(), input)) ||
      failed(after = product(op.getAfter(), input)))
    return failure();
  auto multiply = [&](Value row, Value factor) {
    execute<ExecGateOp>(loc, row, factor, row,
                        GateKindAttr::get(builder.getContext(), GateKind::kLinear));
  };
  multiply(*value, *before);
  if (failed(convolve(op, op.getValue(), *value, false)))
    return failure();
  multiply(*value, *after);
  if (failed(output = product(op.getOutput(), *value)))
    return failure();
  buffers[op.getResult()] = *output;
  return success();
}

} // namespace mlir::moe
