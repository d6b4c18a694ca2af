#include "passes/Passes.h"

#include "compiler/ir/MoeDialect.h"

namespace mlir::moe {

#define GEN_PASS_DEF_ASSIGNBITSPASS
#include "passes/Passes.h.inc"

namespace {

class AssignBits : public impl::AssignBitsPassBase<AssignBits> {
public:
  using AssignBitsPassBase::AssignBitsPassBase;

  void runOnOperation() override;

private:
  FormatAttr floatFormat(WeightKind kind) {
    return FormatAttr::get(&getContext(), kind, 0, 0, false);
  }
  FormatAttr quantizedFormat(WeightKind kind) {
    return FormatAttr::get(&getContext(), kind, group, activationGroup, kind == WeightKind::kInt2);
  }
  FormatAttr formatOf(WeightOp weight);
  FormatAttr expertFormat(MoeLayerOp layer, uint32_t expert);
};

} // namespace

static StringRef nameOf(ExpertBits bits) {
  constexpr StringLiteral kNames[] = {"source", "8", "4", "2"};
  return kNames[static_cast<int>(bits)];
}

static StringRef nameOf(ResidentBits bits) {
  constexpr StringLiteral kNames[] = {"source", "16", "8", "4"};
  return kNames[static_cast<int>(bits)];
}

FormatAttr AssignBits::formatOf(WeightOp weight) {
  WeightKind stored = weight.getSource().getType();
  if (weight.getRole() == WeightRole::kVector)
    return floatFormat(WeightKind::kF32);
  if (weight.getRole() == WeightRole::kRouter)
    return floatFormat(stored);
  switch (residentBits) {
  case ResidentBits::kSource:
    return floatFormat(stored);
  case ResidentBits::k16:
    return floatFormat(stored == WeightKind::kF32 ? WeightKind::kBF16 : stored);
  case ResidentBits::k8:
    return quantizedFormat(WeightKind::kInt8);
  case ResidentBits::k4:
    return quantizedFormat(WeightKind::kInt4);
  }
  llvm_unreachable("a width of no name");
}

FormatAttr AssignBits::expertFormat(MoeLayerOp layer, uint32_t expert) {
  switch (bits) {
  case ExpertBits::kSource:
    break;
  case ExpertBits::k8:
    return quantizedFormat(WeightKind::kInt8);
  case ExpertBits::k4:
    return quantizedFormat(WeightKind::kInt4);
  case ExpertBits::k2:
    return quantizedFormat(WeightKind::kInt2);
  }
  WeightKind gate = layer.sourceOf(ExpertPart::kGate, expert).getType();
  for (ExpertPart part : {ExpertPart::kUp, ExpertPart::kDown})
    if (layer.sourceOf(part, expert).getType() != gate)
      return floatFormat(WeightKind::kF32);
  return floatFormat(gate);
}

void AssignBits::runOnOperation() {
  ModuleOp module = getOperation();
  // Asked for once and checked once: whatever is quantized uses these groups.
  auto emit = [&] { return emitError(module.getLoc(), "moe-assign-bits: "); };
  if (failed(FormatAttr::verify(emit, WeightKind::kInt8, group, activationGroup, false)))
    return signalPassFailure();
  for (WeightOp weight : module.getOps<WeightOp>())
    weight.setFormatAttr(formatOf(weight));
  Builder builder(&getContext());
  for (MoeLayerOp layer : module.getOps<MoeLayerOp>()) {
    SmallVector<Attribute> slices;
    for (uint32_t i = 0; i < layer.getExperts(); ++i)
      slices.push_back(builder.getArrayAttr({expertFormat(layer, i)}));
    layer.setSlicesAttr(builder.getArrayAttr(slices));
  }
  module->setAttr(kExpertBitsAttr, builder.getStringAttr(nameOf(bits)));
  module->setAttr(kResidentBitsAttr, builder.getStringAttr(nameOf(residentBits)));
}

} // namespace mlir::moe
