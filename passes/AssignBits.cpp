// moe-assign-bits (Passes.td): a format for every weight, from one width for all experts or from a
// file of widths. The command line or the search chooses the widths.
#include "passes/Passes.h"

#include "compiler/ir/MoeDialect.h"
#include "compiler/quantize/PackGrid.h"
#include "passes/WidthFile.h"

#include "llvm/ADT/StringSet.h"

#include <map>

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
    return FormatAttr::get(&getContext(), kind, 0, 0, false, false);
  }
  FormatAttr quantizedFormat(WeightKind kind) {
    return FormatAttr::get(&getContext(), kind, group, activationGroup, false, false);
  }
  FormatAttr formatOf(WeightOp weight, ResidentBits width);
  FormatAttr sourceFormat(MoeLayerOp layer, uint32_t expert);
  LogicalResult readWidths();
  LogicalResult checkNames(ModuleOp module);
  FailureOr<ArrayAttr> expertSlices(MoeLayerOp layer, uint32_t expert);
  LogicalResult setResidentFormats(ModuleOp module);

  std::optional<ChosenWidths> chosen; // From the width file, if one is given.
};

} // namespace

static StringRef nameOf(ExpertBits bits) {
  constexpr StringLiteral kNames[] = {"source", "8", "6", "4", "3", "2"};
  return kNames[static_cast<int>(bits)];
}

static StringRef nameOf(ResidentBits bits) {
  constexpr StringLiteral kNames[] = {"source", "16", "8", "4", "same"};
  return kNames[static_cast<int>(bits)];
}

static uint32_t widthOf(ExpertBits bits) {
  constexpr uint32_t kWidths[] = {0, 8, 6, 4, 3, 2}; // 0: the checkpoint's.
  return kWidths[static_cast<int>(bits)];
}

static std::optional<ResidentBits> residentBitsOf(uint32_t bits) {
  switch (bits) {
  case 16:
    return ResidentBits::k16;
  case 8:
    return ResidentBits::k8;
  case 4:
    return ResidentBits::k4;
  }
  return std::nullopt;
}

FormatAttr AssignBits::formatOf(WeightOp weight, ResidentBits width) {
  WeightKind stored = weight.getSource().getType();
  if (weight.getRole() == WeightRole::kVector)
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
    return quantizedFormat(WeightKind::kInt8);
  case ResidentBits::k4:
    return quantizedFormat(WeightKind::kInt4);
  case ResidentBits::kSame:
    break;
  }
  llvm_unreachable("a width without a name");
}

FormatAttr AssignBits::sourceFormat(MoeLayerOp layer, uint32_t expert) {
  WeightKind gate = layer.sourceOf(ExpertPart::kGate, expert).getType();
  for (ExpertPart part : {ExpertPart::kUp, ExpertPart::kDown})
    if (layer.sourceOf(part, expert).getType() != gate)
      return floatFormat(WeightKind::kF32);
  return floatFormat(gate);
}

LogicalResult AssignBits::readWidths() {
  if (widths.empty())
    return success();
  auto read = readWidthFile(widths);
  if (!read.isOk())
    return emitStatus(getOperation(), read.status());
  chosen = std::move(read).value();
  return success();
}

// A width for an absent expert or matrix was meant for another model.
LogicalResult AssignBits::checkNames(ModuleOp module) {
  if (!chosen)
    return success();
  std::map<uint32_t, uint32_t> experts; // Number of experts by MoE layer.
  for (MoeLayerOp layer : module.getOps<MoeLayerOp>())
    experts[layer.getLayer()] = layer.getExperts();
  for (const auto &[place, width] : chosen->experts)
    if (auto layer = experts.find(place.first);
        layer == experts.end() || place.second >= layer->second)
      return emitError(module.getLoc()) << widths << " has a width for expert " << place.second
                                        << " of layer " << place.first << ", which does not exist";
  for (const auto &[name, width] : chosen->weights)
    if (!module.lookupSymbol<WeightOp>(name))
      return emitError(module.getLoc())
             << widths << " has a width for the matrix " << name << ", which does not exist";
  return success();
}

FailureOr<ArrayAttr> AssignBits::expertSlices(MoeLayerOp layer, uint32_t expert) {
  Builder builder(&getContext());
  moec::Grid grid = {widthOf(bits), group, false};
  if (chosen) {
    auto found = chosen->experts.find({layer.getLayer(), expert});
    if (found == chosen->experts.end())
      return layer.emitError() << widths << " has no width for expert " << expert << " of layer "
                               << layer.getLayer();
    grid.bits = found->second.bits;
    if (chosen->group != 0)
      grid.group = chosen->group;
    grid.hasOffsets = found->second.hasOffsets;
  } else if (bits == ExpertBits::kSource) {
    return builder.getArrayAttr({sourceFormat(layer, expert)});
  }
  auto formats = moec::slicesOf(grid, activationGroup, chosen ? chosen->isNested : nested);
  if (!formats.isOk())
    return emitStatus(layer, formats.status());
  SmallVector<Attribute> slices;
  for (const moert::WeightFormat &format : *formats)
    slices.push_back(toFormatAttr(&getContext(), format));
  return builder.getArrayAttr(slices);
}

// The matrices that compute the logits.
static llvm::StringSet<> headsOf(ModuleOp module) {
  llvm::StringSet<> heads;
  module.walk([&](HeadOp head) { heads.insert(head.getLinear().getWeight().getValue()); });
  return heads;
}

LogicalResult AssignBits::setResidentFormats(ModuleOp module) {
  const llvm::StringSet<> heads = headsOf(module);
  for (WeightOp weight : module.getOps<WeightOp>()) {
    bool hasOwn = headBits != ResidentBits::kSame && heads.contains(weight.getSymName());
    ResidentBits width = hasOwn ? headBits : residentBits;
    if (chosen)
      if (auto named = chosen->weights.find(weight.getSymName().str());
          named != chosen->weights.end()) {
        std::optional<ResidentBits> asked = residentBitsOf(named->second);
        if (!asked)
          return weight.emitError()
                 << widths << " has " << named->second << " bits, expected 16, 8 or 4";
        width = *asked;
      }
    weight.setFormatAttr(formatOf(weight, width));
  }
  return success();
}

void AssignBits::runOnOperation() {
  ModuleOp module = getOperation();
  // Checked once here: all quantized formats use these groups.
  auto emit = [&] { return emitError(module.getLoc(), "moe-assign-bits: "); };
  if (failed(FormatAttr::verify(emit, WeightKind::kInt8, group, activationGroup, false, false)))
    return signalPassFailure();
  if (failed(readWidths()) || failed(checkNames(module)) || failed(setResidentFormats(module)))
    return signalPassFailure();
  Builder builder(&getContext());
  for (MoeLayerOp layer : module.getOps<MoeLayerOp>()) {
    SmallVector<Attribute> slices;
    for (uint32_t i = 0; i < layer.getExperts(); ++i) {
      FailureOr<ArrayAttr> ofExpert = expertSlices(layer, i);
      if (failed(ofExpert))
        return signalPassFailure();
      slices.push_back(*ofExpert);
    }
    layer.setSlicesAttr(builder.getArrayAttr(slices));
  }
  StringRef expertBits = chosen ? "auto" : nameOf(bits);
  bool hasResidents = chosen && !chosen->weights.empty();
  module->setAttr(kExpertBitsAttr, builder.getStringAttr(expertBits));
  module->setAttr(kResidentBitsAttr,
                  builder.getStringAttr(hasResidents ? "auto" : nameOf(residentBits)));
  if (headBits == ResidentBits::kSame)
    module->removeAttr(kHeadBitsAttr);
  else
    module->setAttr(kHeadBitsAttr, builder.getStringAttr(nameOf(headBits)));
}

} // namespace mlir::moe
