#include "passes/WeightFormats.h"

namespace mlir::moe {

FailureOr<FormatAttr> formatOf(Operation *op, WeightOp weight) {
  if (std::optional<FormatAttr> format = weight.getFormat())
    return *format;
  return op->emitOpError() << "uses weight @" << weight.getSymName()
                           << ", which has no format: run moe-assign-bits first";
}

/// The formats without those of a low copy, which takes inputs of its own.
static SmallVector<FormatAttr> fullFormatsOf(ArrayAttr slices) {
  std::vector<moert::WeightFormat> formats;
  for (FormatAttr format : slices.getAsRange<FormatAttr>())
    formats.push_back(toWeightFormat(format));
  return llvm::to_vector(
      llvm::drop_begin(slices.getAsRange<FormatAttr>(), moert::lowCopySlicesOf(formats)));
}

FailureOr<FormatAttr> commonFormat(ExpertsOp op, MoeLayerOp layer) {
  if (!layer.getSlices())
    return op.emitOpError() << "uses the experts of @" << layer.getSymName()
                            << ", which have no slices: run moe-assign-bits first";
  FormatAttr first;
  for (auto list : layer.getSlices()->getAsRange<ArrayAttr>())
    for (FormatAttr format : fullFormatsOf(list)) {
      first = first ? first : format;
      if (format.isQuantized() != first.isQuantized() ||
          format.getActivationGroup() != first.getActivationGroup())
        return op.emitOpError() << "has experts of " << stringifyWeightKind(first.getKind())
                                << " and of " << stringifyWeightKind(format.getKind())
                                << " with different inputs; expected all float, or all quantized "
                                   "with one activation group";
    }
  return first;
}

} // namespace mlir::moe
