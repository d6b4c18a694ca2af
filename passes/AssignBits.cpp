// moe-assign-bits (Passes.td): a format for every weight, from the widths that were chosen for it
// (compiler/ir/Choices.h) or from the options.
#include "passes/Passes.h"

#include "compiler/ir/Choices.h"
#include "compiler/quantize/PackGrid.h"
#include "passes/QuantizeInputs.h"
#include "runtime/format/CodeLevels.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

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
    return toFormatAttr(&getContext(), moert::floatFormat(static_cast<moert::WeightKind>(kind)));
  }
  FailureOr<FormatAttr> residentFormat(WeightOp weight, uint32_t width);
  FailureOr<FormatAttr> formatOf(WeightOp weight, ResidentBits width);
  moert::ExpertFormat sourceFormat(MoeLayerOp layer, uint32_t expert);
  moec::Grid gridOf(uint32_t width) const;
  moert::Result<std::vector<moert::ExpertFormat>> slicesOf(uint32_t width, uint32_t downWidth,
                                                           bool isNested) const;
  FailureOr<std::vector<moert::ExpertFormat>> fullFormatsOf(MoeLayerOp layer, uint32_t expert);
  FailureOr<std::vector<moert::ExpertFormat>> expertFormats(MoeLayerOp layer, uint32_t expert);
  LogicalResult checkOptions(ModuleOp module);
  LogicalResult setSlices(MoeLayerOp layer);
  FailureOr<bool> setResidentFormats(ModuleOp module);
  uint32_t setKvKinds(ModuleOp module, bool isSource);

  Quantizer quantizer; // The module's, or that of the options.
  llvm::StringSet<> embeddings;
};

} // namespace

static StringRef nameOf(ExpertBits bits) {
  constexpr StringLiteral kNames[] = {"source", "8", "6", "5", "4", "3", "2"};
  return kNames[static_cast<int>(bits)];
}

static StringRef nameOf(ResidentBits bits) {
  constexpr StringLiteral kNames[] = {"source", "16", "8", "4", "same"};
  return kNames[static_cast<int>(bits)];
}

static uint32_t widthOf(ExpertBits bits) {
  constexpr uint32_t kWidths[] = {0, 8, 6, 5, 4, 3, 2}; // 0: the checkpoint's.
  return kWidths[static_cast<int>(bits)];
}

// The verifier allows no other numbers.
static ResidentBits residentBitsOf(uint32_t bits) {
  return bits == 16 ? ResidentBits::k16 : bits == 8 ? ResidentBits::k8 : ResidentBits::k4;
}

/// With error feedback the codes of experts; rows of an embedding are read without a product, so
/// they are not transformed.
FailureOr<FormatAttr> AssignBits::residentFormat(WeightOp weight, uint32_t width) {
  moec::Grid grid = {.bits = width, .group = group};
  if (quantizer.method == QuantizeMethod::kGptq) {
    grid = gridOf(width);
    grid.hasHadamard &= !embeddings.contains(weight.getSymName());
  }
  auto slices = moec::slicesOf(grid, activationGroup, false);
  if (!slices.isOk())
    return emitStatus(weight, slices.status());
  return toFormatAttr(&getContext(), slices->front());
}

FailureOr<FormatAttr> AssignBits::formatOf(WeightOp weight, ResidentBits width) {
  WeightKind stored = weight.getSource().getType();
  if (weight.getRole() == WeightRole::kVector || weight.getRole() == WeightRole::kTaps)
    return floatFormat(WeightKind::kF32);
  if (weight.getRole() == WeightRole::kRouter)
    return floatFormat(stored);
  if (weight.getRole() == WeightRole::kHeads && width != ResidentBits::kSource)
    width = ResidentBits::k16;
  switch (width) {
  case ResidentBits::kSource:
    return floatFormat(stored);
  case ResidentBits::k16:
    return floatFormat(stored == WeightKind::kF32 ? WeightKind::kBF16 : stored);
  case ResidentBits::k8:
    return residentFormat(weight, 8);
  case ResidentBits::k4:
    return residentFormat(weight, 4);
  case ResidentBits::kSame:
    break;
  }
  llvm_unreachable("a width without a name");
}

/// Gate and up have one format, so that of two types they become f32, which holds both.
moert::ExpertFormat AssignBits::sourceFormat(MoeLayerOp layer, uint32_t expert) {
  const auto kindOf = [&](ExpertPart part) {
    return static_cast<moert::WeightKind>(layer.sourceOf(part, expert).getType());
  };
  moert::WeightKind both = kindOf(ExpertPart::kUp);
  for (ExpertMatrixAttr matrix : layer.getMatrices().getAsRange<ExpertMatrixAttr>())
    if (matrix.getPart() == ExpertPart::kGate && kindOf(ExpertPart::kGate) != both)
      both = moert::WeightKind::kF32;
  return {moert::floatFormat(both), moert::floatFormat(kindOf(ExpertPart::kDown))};
}

moec::Grid AssignBits::gridOf(uint32_t width) const {
  const bool hasLevels = quantizer.hasLevels && width <= moert::kMaxLevelBits;
  return {width,     quantizer.group,         quantizer.hasOffsets,
          hasLevels, quantizer.hasByteScales, quantizer.hasHadamard};
}

moert::Result<std::vector<moert::ExpertFormat>>
AssignBits::slicesOf(uint32_t width, uint32_t downWidth, bool isNested) const {
  return moec::slicesOf(moec::ExpertGrid(gridOf(width), gridOf(downWidth)), activationGroup,
                        isNested);
}

/// Without a low copy.
FailureOr<std::vector<moert::ExpertFormat>> AssignBits::fullFormatsOf(MoeLayerOp layer,
                                                                      uint32_t expert) {
  std::optional<ArrayRef<int32_t>> chosen = layer.getBits();
  if (!chosen && bits == ExpertBits::kSource)
    return std::vector<moert::ExpertFormat>{sourceFormat(layer, expert)};
  uint32_t width = widthOf(bits), downWidth = downBits == 0 ? width : downBits.getValue();
  if (chosen) {
    width = static_cast<uint32_t>((*chosen)[expert]);
    downWidth = static_cast<uint32_t>(layer.getDownBits().value_or(*chosen)[expert]);
  }
  auto formats = slicesOf(width, downWidth, quantizer.isNested);
  if (!formats.isOk())
    return emitStatus(layer, formats.status());
  return std::move(*formats);
}

FailureOr<std::vector<moert::ExpertFormat>> AssignBits::expertFormats(MoeLayerOp layer,
                                                                      uint32_t expert) {
  FailureOr<std::vector<moert::ExpertFormat>> formats = fullFormatsOf(layer, expert);
  if (mlir::failed(formats))
    return failure();
  uint32_t width = 0, downWidth = 0;
  for (const moert::ExpertFormat &format : *formats) {
    width += moert::bitsOf(format.gateUp.kind);
    downWidth += moert::bitsOf(format.down.kind);
  }
  if (lowCopyBits != 0 && lowCopyBits < std::min(width, downWidth)) {
    auto lowCopy = slicesOf(lowCopyBits, lowCopyBits, false);
    if (!lowCopy.isOk())
      return emitStatus(layer, lowCopy.status());
    formats->insert(formats->begin(), lowCopy->begin(), lowCopy->end());
  }
  return formats;
}

LogicalResult AssignBits::setSlices(MoeLayerOp layer) {
  std::vector<std::vector<moert::ExpertFormat>> all;
  for (uint32_t i = 0; i < layer.getExperts(); ++i) {
    FailureOr<std::vector<moert::ExpertFormat>> formats = expertFormats(layer, i);
    if (mlir::failed(formats))
      return failure();
    all.push_back(std::move(*formats));
  }
  layer.setFormats(all);
  return success();
}

/// Checkpoints store floats.
static LogicalResult checkSource(Operation *op, SourceAttr source) {
  const auto kind = static_cast<moert::WeightKind>(source.getType());
  return moert::isQuantized(kind) ? op->emitOpError()
                                        << "a source stored as " << moert::nameOf(kind)
                                        << ", expected f32, f16, bf16, mxfp4 or blocks of ggml's"
                                  : success();
}

static LogicalResult checkSources(ModuleOp module) {
  if (module->hasAttr(kArtifactAttr))
    return emitError(module.getLoc(), "the weights of an artifact have their formats, expected the "
                                      "module of a checkpoint");
  for (WeightOp weight : module.getOps<WeightOp>())
    if (failed(checkSource(weight, weight.getSource())))
      return failure();
  for (MoeLayerOp layer : module.getOps<MoeLayerOp>())
    for (ExpertMatrixAttr matrix : layer.getMatrices().getAsRange<ExpertMatrixAttr>())
      for (SourceAttr source : matrix.getSources())
        if (failed(checkSource(layer, source)))
          return failure();
  return success();
}

// The matrices that compute the logits.
static llvm::StringSet<> headsOf(ModuleOp module) {
  llvm::StringSet<> heads;
  module.walk([&](HeadOp head) { heads.insert(head.getWeight()); });
  return heads;
}

/// Returns whether a width was chosen for one of them.
FailureOr<bool> AssignBits::setResidentFormats(ModuleOp module) {
  module.walk([&](EmbedOp embed) { embeddings.insert(embed.getWeight()); });
  module.walk([&](EmbedPositionOp embed) { embeddings.insert(embed.getWeight()); });
  const llvm::StringSet<> heads = headsOf(module);
  bool isAnyChosen = false;
  for (WeightOp weight : module.getOps<WeightOp>()) {
    bool hasOwn = headBits != ResidentBits::kSame && heads.contains(weight.getSymName());
    ResidentBits width = hasOwn ? headBits : residentBits;
    if (std::optional<uint32_t> chosen = weight.getBits()) {
      width = residentBitsOf(*chosen);
      isAnyChosen = true;
    }
    FailureOr<FormatAttr> format = formatOf(weight, width);
    if (mlir::failed(format))
      return failure();
    weight.setFormatAttr(*format);
  }
  return isAnyChosen;
}

/// Returns the width; 32 without attention.
uint32_t AssignBits::setKvKinds(ModuleOp module, bool isSource) {
  KvKind kind = isSource ? KvKind::kF32 : KvKind::kF16;
  if (kvBits != KvBits::kAuto)
    kind = kvBits == KvBits::k32   ? KvKind::kF32
           : kvBits == KvBits::k16 ? KvKind::kF16
                                   : KvKind::kInt8;
  uint32_t width = 32;
  for (KvSlotOp slot : module.getOps<KvSlotOp>()) {
    const bool isLatent = slot.getValueDim() == 0;
    const KvKind own = isLatent && kind == KvKind::kInt8 ? KvKind::kF16 : kind;
    slot.setKindAttr(own == KvKind::kF32 ? KvKindAttr() : KvKindAttr::get(&getContext(), own));
    width = std::min(width, moert::bitsOf(static_cast<moert::KvKind>(own)));
  }
  return width;
}

LogicalResult AssignBits::checkOptions(ModuleOp module) {
  auto emit = [&] { return emitError(module.getLoc(), "moe-assign-bits: "); };
  if (!llvm::is_contained({0u, 2u, 4u, 8u}, lowCopyBits.getValue()))
    return emit() << "low copies of " << lowCopyBits.getValue() << " bits, expected 2, 4 or 8";
  if (!llvm::is_contained({0u, 2u, 3u, 4u, 5u, 6u, 8u}, downBits.getValue()))
    return emit() << "down of " << downBits.getValue()
                  << " bits, expected 8, 6, 5, 4, 3 or 2, or 0: as bits";
  if (downBits != 0 && bits == ExpertBits::kSource)
    return emit() << "down of " << downBits.getValue()
                  << " bits in experts of bits=source, expected bits of 8, 6, 5, 4, 3 or 2";
  if (bits == ExpertBits::kSource && lowCopyBits != 0 && quantizer.hasHadamard)
    return emit() << "low copies beside experts of bits=source with the Hadamard transform, "
                     "expected a quantizer without it";
  // Checked once here: all quantized formats use these groups.
  for (uint32_t used : {group.getValue(), quantizer.group})
    if (failed(FormatAttr::verify(emit, WeightKind::kInt8, used, activationGroup, false, false,
                                  false, false)))
      return failure();
  return success();
}

void AssignBits::runOnOperation() {
  ModuleOp module = getOperation();
  quantizer = module->hasAttr(kQuantizerAttr) ? quantizerOf(module)
                                              : Quantizer{.group = group, .isNested = nested};
  if (failed(checkSources(module)))
    return signalPassFailure();
  if (failed(checkOptions(module)))
    return signalPassFailure();
  bool areExpertsChosen = false;
  for (MoeLayerOp layer : module.getOps<MoeLayerOp>()) {
    if (failed(setSlices(layer)))
      return signalPassFailure();
    areExpertsChosen |= layer.getBits().has_value();
  }
  const FailureOr<bool> areResidentsChosen = setResidentFormats(module);
  if (mlir::failed(areResidentsChosen))
    return signalPassFailure();
  for (ProgramOp program : module.getOps<ProgramOp>())
    if (mlir::failed(quantizeInputs(program)))
      return signalPassFailure();
  Builder builder(&getContext());
  const auto setOrRemove = [&](StringRef name, bool isSet, const Twine &value) {
    if (isSet)
      module->setAttr(name, builder.getStringAttr(value));
    else
      module->removeAttr(name);
  };
  module->setAttr(kExpertBitsAttr, builder.getStringAttr(areExpertsChosen ? "auto" : nameOf(bits)));
  module->setAttr(kResidentBitsAttr,
                  builder.getStringAttr(*areResidentsChosen ? "auto" : nameOf(residentBits)));
  setOrRemove(kExpertDownBitsAttr, !areExpertsChosen && downBits != 0 && downBits != widthOf(bits),
              Twine(downBits));
  setOrRemove(kHeadBitsAttr, headBits != ResidentBits::kSame, nameOf(headBits));
  const bool isSource = !areExpertsChosen && bits == ExpertBits::kSource && !*areResidentsChosen &&
                        residentBits == ResidentBits::kSource &&
                        (headBits == ResidentBits::kSame || headBits == ResidentBits::kSource);
  const uint32_t width = setKvKinds(module, isSource);
  setOrRemove(kKvBitsAttr, width != 32, Twine(width));
}

} // namespace mlir::moe
