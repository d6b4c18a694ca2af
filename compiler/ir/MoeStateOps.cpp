// Verifiers of the ops of MoeStateOps.td.
#include "compiler/ir/SymbolChecks.h"

namespace mlir::moe {

LogicalResult StateSlotOp::verify() {
  if (getRows() == 0 || getWidth() == 0)
    return emitOpError("expected at least one row of at least one element");
  return success();
}

static LogicalResult checkStateSlot(Operation *op, SymbolTableCollection &symbols,
                                    FlatSymbolRefAttr name, uint64_t rows, uint64_t width) {
  auto slot = lookUp<StateSlotOp>(op, symbols, name);
  if (!slot)
    return failure();
  if (slot.getRows() != rows || slot.getWidth() != width)
    return op->emitOpError() << "state slot " << name << " is " << slot.getRows() << " x "
                             << slot.getWidth() << ", expected " << rows << " x " << width;
  return success();
}

/// A product of `rows` results that pass through a convolution.
static LogicalResult checkConvolved(Operation *op, SymbolTableCollection &symbols,
                                    ConvolvedAttr convolved, uint64_t rows, uint64_t width) {
  auto taps = lookUp<WeightOp>(op, symbols, convolved.getTaps());
  if (!taps || failed(checkLinear(op, symbols, convolved.getLinear(), rows, width)) ||
      !checkWeight(op, symbols, convolved.getTaps(), rows, taps.cols()))
    return failure();
  if (taps.getRole() != WeightRole::kTaps)
    return op->emitOpError() << "weight " << convolved.getTaps() << " has the role "
                             << stringifyWeightRole(taps.getRole()) << ", expected taps";
  if (rows < moert::kPanelRows || taps.cols() < 2)
    return op->emitOpError() << "convolves " << rows << " elements with " << taps.cols()
                             << " taps, expected at least " << moert::kPanelRows << " with 2";
  return checkStateSlot(op, symbols, convolved.getTail(), taps.cols() - 1, rows);
}

LogicalResult DeltaNetOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput());
  auto key = lookUp<WeightOp>(*this, symbols, getKey().getTaps());
  auto value = lookUp<WeightOp>(*this, symbols, getValue().getTaps());
  if (failed(width) || !key || !value)
    return failure();
  uint64_t keys = key.rows(), values = value.rows(), keyHeads = getKeyHeads(), heads = getHeads();
  if (keyHeads == 0 || heads == 0 || heads % keyHeads != 0)
    return emitOpError() << heads << " heads over " << keyHeads
                         << " key heads, expected a multiple";
  if (keys % keyHeads != 0 || values % heads != 0)
    return emitOpError() << "keys of " << keys << " and values of " << values << " elements for "
                         << keyHeads << " and " << heads << " heads, expected multiples";
  NormAttr norm = getOutputNorm();
  uint64_t keyDim = keys / keyHeads, valueDim = values / heads;
  if (failed(checkConvolved(*this, symbols, getQuery(), keys, *width)) ||
      failed(checkConvolved(*this, symbols, getKey(), keys, *width)) ||
      failed(checkConvolved(*this, symbols, getValue(), values, *width)) ||
      failed(checkLinear(*this, symbols, getGate(), values, *width)) ||
      failed(checkLinear(*this, symbols, getDecay(), heads, *width)) ||
      failed(checkLinear(*this, symbols, getWrite(), heads, *width)) ||
      failed(checkRouterRole(*this, symbols, getDecay().getWeight())) ||
      failed(checkRouterRole(*this, symbols, getWrite().getWeight())) ||
      failed(checkVector(*this, symbols, getLogRateAttr(), heads)) ||
      failed(checkVector(*this, symbols, getDecayBiasAttr(), heads)) ||
      failed(checkNorm(*this, symbols, norm.getWeight(), norm.getBias(), values, valueDim)) ||
      failed(checkLinear(*this, symbols, getOutput(), *width, values)))
    return failure();
  return checkStateSlot(*this, symbols, getStateAttr(), heads * keyDim, valueDim);
}

LogicalResult ShortConvolutionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput());
  auto taps = lookUp<WeightOp>(*this, symbols, getValue().getTaps());
  if (failed(width) || !taps)
    return failure();
  uint64_t rows = taps.rows();
  if (failed(checkConvolved(*this, symbols, getValue(), rows, *width)) ||
      failed(checkLinear(*this, symbols, getBefore(), rows, *width)) ||
      failed(checkLinear(*this, symbols, getAfter(), rows, *width)))
    return failure();
  return checkLinear(*this, symbols, getOutput(), *width, rows);
}

} // namespace mlir::moe
