// Verifiers of the attributes of choices, and their conversion from and to plain data.
#include "compiler/ir/Choices.h"

namespace mlir::moe {

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult QuantizerAttr::verify(EmitError emitError, QuantizeMethod method, uint32_t group,
                                    bool offsets, bool levels, bool byteScales, bool /*hadamard*/,
                                    bool /*nested*/, StringRef calibration,
                                    uint64_t /*traceExpertBytes*/,
                                    DenseI64ArrayAttr /*searchRuns*/) {
  if (group == 0)
    return emitError() << "a quantizer with groups of 0 inputs, expected at least 1";
  if (offsets && levels)
    return emitError() << "a quantizer with offsets and levels, expected at most one of them";
  if (offsets && byteScales)
    return emitError() << "a quantizer with offsets and byte scales, expected at most one of them";
  if (method != QuantizeMethod::kNearest && calibration.empty())
    return emitError() << "quantizer " << stringifyQuantizeMethod(method)
                       << " without a calibration profile, to which it fits";
  return success();
}

//===----------------------------------------------------------------------===//
// From plain data
//===----------------------------------------------------------------------===//

static QuantizerAttr toQuantizerAttr(MLIRContext *context, const Quantizer &from) {
  const SmallVector<int64_t> runs(from.searchRuns.begin(), from.searchRuns.end());
  return QuantizerAttr::get(
      context, from.method, from.group, from.hasOffsets, from.hasLevels, from.hasByteScales,
      from.hasHadamard, from.isNested, from.calibration, from.traceExpertBytes,
      runs.empty() ? DenseI64ArrayAttr() : DenseI64ArrayAttr::get(context, runs));
}

void choose(ModuleOp module, const Choices &choices) {
  MLIRContext *context = module.getContext();
  if (choices.quantizer)
    module->setAttr(kQuantizerAttr, toQuantizerAttr(context, *choices.quantizer));
  if (choices.measured)
    module->setAttr(kMeasuredAttr, MeasuredAttr::get(context, *choices.measured));
  if (!choices.widthsBy.empty())
    module->setAttr(kWidthsByAttr, StringAttr::get(context, choices.widthsBy));
  if (!choices.expertBits.empty())
    for (auto [layer, bits] : llvm::zip_equal(module.getOps<MoeLayerOp>(), choices.expertBits))
      layer.setBits(bits);
  if (!choices.expertDownBits.empty())
    for (auto [layer, bits] : llvm::zip_equal(module.getOps<MoeLayerOp>(), choices.expertDownBits))
      layer.setDownBits(bits);
  for (const auto &[symbol, bits] : choices.residentBits)
    module.lookupSymbol<WeightOp>(symbol).setBits(bits);
}

//===----------------------------------------------------------------------===//
// To plain data
//===----------------------------------------------------------------------===//

Quantizer quantizerOf(ModuleOp module) {
  auto from = module->getAttrOfType<QuantizerAttr>(kQuantizerAttr);
  if (!from)
    return {};
  Quantizer quantizer = {
      from.getMethod(),          from.getGroup(),    from.getOffsets(), from.getLevels(),
      from.getByteScales(),      from.getHadamard(), from.getNested(),  from.getCalibration().str(),
      from.getTraceExpertBytes()};
  if (DenseI64ArrayAttr runs = from.getSearchRuns())
    quantizer.searchRuns.assign(runs.asArrayRef().begin(), runs.asArrayRef().end());
  return quantizer;
}

} // namespace mlir::moe
