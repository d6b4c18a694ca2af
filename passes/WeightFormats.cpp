#include "passes/WeightFormats.h"

namespace mlir::moe {

FailureOr<FormatAttr> formatOf(Operation *op, WeightOp weight) {
  if (std::optional<FormatAttr> format = weight.getFormat())
    return *format;
  return op->emitOpError() << "uses weight @" << weight.getSymName()
                           << ", which has no format: run moe-assign-bits first";
}

/// The formats without those of a low copy, which takes inputs of its own. The formats of down,
/// whose inputs are of the same form, are left out.
static SmallVector<FormatAttr> fullFormatsOf(MoeLayerOp layer, uint32_t expert) {
  auto slices = cast<ArrayAttr>((*layer.getSlices())[expert]).getAsRange<FormatAttr>();
  return llvm::to_vector(llvm::drop_begin(slices, moert::lowCopySlicesOf(layer.formatsOf(expert))));
}

FailureOr<FormatAttr> commonFormat(ExpertsOp op, MoeLayerOp layer) {
  if (!layer.getSlices())
    return op.emitOpError() << "uses the experts of @" << layer.getSymName()
                            << ", which have no slices: run moe-assign-bits first";
  FormatAttr first;
  for (uint32_t expert = 0; expert < layer.getExperts(); ++expert)
    for (FormatAttr format : fullFormatsOf(layer, expert)) {
      first = first ? first : format;
      if (format.isQuantized() != first.isQuantized() ||
          format.getActivationGroup() != first.getActivationGroup() ||
          format.getHadamard() != first.getHadamard())
        return op.emitOpError() << "has experts of " << stringifyWeightKind(first.getKind())
                                << " and of " << stringifyWeightKind(format.getKind())
                                << " with different inputs; expected all float, or all quantized "
                                   "with one activation group, all with the Hadamard transform "
                                   "or all without";
    }
  return first;
}

} // namespace mlir::moe
