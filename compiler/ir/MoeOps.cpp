// Verifiers of the symbols of the dialect `moe`, and of programs, whose instructions are checked by
// the format's own rules.
#include "compiler/ir/BuildProgram.h"
#include "runtime/format/ProgramCheck.h"

#include "mlir/IR/Builders.h"

namespace mlir::moe {

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

LogicalResult WeightOp::verify() {
  if (getRole() == WeightRole::kVector && rows() != 1)
    return emitOpError() << "a vector of " << rows() << " rows, expected 1";
  if (std::optional<uint32_t> bits = getBits())
    if (getRole() != WeightRole::kMatrix || !llvm::is_contained({16, 8, 4}, *bits))
      return emitOpError() << "has " << *bits << " bits, expected 16, 8 or 4 of a matrix";
  if (WeightKind type = getSource().getType(); moert::isKept(static_cast<moert::WeightKind>(type)))
    return emitOpError() << "a source of " << stringifyWeightKind(type)
                         << ", which only experts have";
  std::optional<FormatAttr> format = getFormat();
  if (!format)
    return success();
  if (const auto kind = static_cast<moert::WeightKind>(format->getKind());
      moert::isKept(kind) || moert::planesOf(kind).size() > 1)
    return emitOpError() << "stored as " << stringifyWeightKind(format->getKind())
                         << ", which only experts are";
  const bool isTaps = getRole() == WeightRole::kTaps;
  if ((isTaps || getRole() == WeightRole::kVector) && format->getKind() != WeightKind::kF32)
    return emitOpError() << (isTaps ? "taps" : "a vector") << " stored as "
                         << stringifyWeightKind(format->getKind()) << ", expected f32";
  if (getRole() == WeightRole::kRouter && format->isQuantized())
    return emitOpError("a router is never quantized");
  if (getRole() == WeightRole::kHeads && format->isQuantized())
    return emitOpError("a matrix of a product per head is never quantized");
  if (format->getRefines())
    return emitOpError("a weight that refines another; only slices of experts can");
  auto layout = moert::layoutOf(shapeOf(getSource()), toWeightFormat(*format));
  return layout.isOk() ? success() : emitStatus(*this, layout.status());
}

static LogicalResult verifyMatrices(MoeLayerOp op) {
  ArrayAttr matrices = op.getMatrices();
  const size_t firstPart = op.hasGate() ? 0 : 1;
  const auto emitParts = [&] {
    return op.emitOpError("expected the matrices ")
           << (firstPart == 0 ? "gate, " : "") << "up and down, in this order";
  };
  for (auto [i, attribute] : llvm::enumerate(matrices)) {
    auto matrix = cast<ExpertMatrixAttr>(attribute);
    size_t sources = matrix.getSources().size();
    if (static_cast<size_t>(matrix.getPart()) != firstPart + i)
      return emitParts();
    if (sources != 1 && sources != op.getExperts())
      return op.emitOpError() << stringifyExpertPart(matrix.getPart()) << " has " << sources
                              << " sources, expected 1 or " << op.getExperts();
  }
  if (matrices.size() != moert::kExpertParts - firstPart)
    return emitParts();
  ExpertMatrixAttr first = cast<ExpertMatrixAttr>(matrices[0]), up = op.matrix(ExpertPart::kUp),
                   down = op.matrix(ExpertPart::kDown);
  if (up.rows() != first.rows() || up.cols() != first.cols())
    return op.emitOpError() << "up is " << up.rows() << " x " << up.cols() << ", expected "
                            << first.rows() << " x " << first.cols() << " like gate";
  if (down.rows() != up.cols() || down.cols() != up.rows())
    return op.emitOpError() << "down is " << down.rows() << " x " << down.cols() << ", expected "
                            << up.cols() << " x " << up.rows();
  return success();
}

/// A kept kind is that of the checkpoint.
static LogicalResult verifyKept(MoeLayerOp op, uint32_t expert, const moert::ExpertFormat &format) {
  for (ExpertMatrixAttr matrix : op.getMatrices().getAsRange<ExpertMatrixAttr>()) {
    const ExpertPart part = matrix.getPart();
    const moert::WeightKind kind = (part == ExpertPart::kDown ? format.down : format.gateUp).kind;
    WeightKind type = op.sourceOf(part, expert).getType();
    if (moert::isKept(kind) && type != static_cast<WeightKind>(kind))
      return op.emitOpError() << "expert " << expert << ": slices of " << moert::nameOf(kind)
                              << ", but " << stringifyExpertPart(part) << " is stored as "
                              << stringifyWeightKind(type);
  }
  return success();
}

/// As many widths as experts, each possible.
static LogicalResult verifyBits(MoeLayerOp op, StringRef name,
                                std::optional<ArrayRef<int32_t>> bits) {
  const auto isWidth = [](int32_t each) { return llvm::is_contained({8, 6, 5, 4, 3, 2}, each); };
  if (!bits || (bits->size() == op.getExperts() && llvm::all_of(*bits, isWidth)))
    return success();
  return op.emitOpError() << "expected " << name << " of 8, 6, 5, 4, 3 or 2 for each of its "
                          << op.getExperts() << " experts";
}

/// As many formats of down as slices.
static LogicalResult verifyDownSlices(MoeLayerOp op) {
  std::optional<ArrayAttr> down = op.getDownSlices();
  if (!down)
    return success();
  if (down->size() != op.getExperts())
    return op.emitOpError() << "has down_slices for " << down->size() << " experts, expected "
                            << op.getExperts();
  for (uint32_t i = 0; i < op.getExperts(); ++i) {
    const size_t found = cast<ArrayAttr>((*down)[i]).size();
    const size_t expected = cast<ArrayAttr>((*op.getSlices())[i]).size();
    if (found != expected)
      return op.emitOpError() << "expert " << i << " has " << found << " down_slices, expected "
                              << expected << ", one for each of its slices";
  }
  return success();
}

/// All experts of a layer take the same input. That of a low copy is its own, and that of down has
/// the form of the others.
static LogicalResult verifyInputs(MoeLayerOp op) {
  std::optional<moert::WeightFormat> first;
  for (uint32_t expert = 0; expert < op.getExperts(); ++expert) {
    const std::vector<moert::ExpertFormat> formats = op.formatsOf(expert);
    for (size_t i = moert::lowCopySlicesOf(formats); i < formats.size(); ++i) {
      const moert::WeightFormat &format = formats[i].gateUp;
      first = first.value_or(format);
      if (moert::isQuantized(format.kind) != moert::isQuantized(first->kind) ||
          format.activationGroup != first->activationGroup ||
          format.hasHadamard != first->hasHadamard)
        return op.emitOpError() << "has experts of " << moert::nameOf(first->kind) << " and of "
                                << moert::nameOf(format.kind)
                                << " with different inputs; expected all float, or all quantized "
                                   "with one activation group, all with the Hadamard transform "
                                   "or all without";
    }
  }
  return success();
}

static LogicalResult verifySlices(MoeLayerOp op) {
  std::optional<ArrayAttr> slices = op.getSlices();
  if (!slices && op.getDownSlices())
    return op.emitOpError("has down_slices without slices, expected both or slices alone");
  if (!slices)
    return success();
  if (slices->size() != op.getExperts())
    return op.emitOpError() << "has slices for " << slices->size() << " experts, expected "
                            << op.getExperts();
  if (failed(verifyDownSlices(op)))
    return failure();
  for (uint32_t expert = 0; expert < op.getExperts(); ++expert) {
    const std::vector<moert::ExpertFormat> formats = op.formatsOf(expert);
    if (formats.empty())
      return op.emitOpError() << "expert " << expert << " has no slices";
    if (moert::Status status = moert::checkSliceFormats(formats); !status.isOk())
      return op.emitOpError() << "expert " << expert << ": " << status.message();
    if (failed(verifyKept(op, expert, formats[moert::lowCopySlicesOf(formats)])))
      return failure();
  }
  return verifyInputs(op);
}

LogicalResult MoeLayerOp::verify() {
  constexpr uint32_t kMaxExperts = 65536; // The limit of the artifact.
  if (getExperts() == 0 || getExperts() > kMaxExperts)
    return emitOpError() << "has " << getExperts() << " experts, expected 1 to " << kMaxExperts;
  if (moert::Status status = moert::checkActivation(matricesOf(*this).activation); !status.isOk())
    return emitOpError(status.message());
  if (failed(verifyMatrices(*this)))
    return failure();
  if (failed(verifyBits(*this, "bits", getBits())) ||
      failed(verifyBits(*this, "down_bits", getDownBits())))
    return failure();
  if (getDownBits() && !getBits())
    return emitOpError("has down_bits without bits, expected both or bits alone");
  return verifySlices(*this);
}

std::vector<moert::ExpertFormat> MoeLayerOp::formatsOf(uint32_t expert) {
  const auto ofExpert = [&](ArrayAttr all) {
    return cast<ArrayAttr>(all[expert]).getAsRange<FormatAttr>();
  };
  std::vector<moert::ExpertFormat> formats;
  for (auto [gateUp, down] :
       llvm::zip_equal(ofExpert(*getSlices()), ofExpert(getDownSlices().value_or(*getSlices()))))
    formats.emplace_back(toWeightFormat(gateUp), toWeightFormat(down));
  return formats;
}

void MoeLayerOp::setFormats(ArrayRef<std::vector<moert::ExpertFormat>> experts) {
  Builder builder(getContext());
  SmallVector<Attribute> slices, downSlices;
  for (const std::vector<moert::ExpertFormat> &formats : experts) {
    SmallVector<Attribute> gateUp, down;
    for (const moert::ExpertFormat &format : formats) {
      gateUp.push_back(toFormatAttr(getContext(), format.gateUp));
      down.push_back(toFormatAttr(getContext(), format.down));
    }
    slices.push_back(builder.getArrayAttr(gateUp));
    downSlices.push_back(builder.getArrayAttr(down));
  }
  setSlicesAttr(builder.getArrayAttr(slices));
  setDownSlicesAttr(slices == downSlices ? ArrayAttr() : builder.getArrayAttr(downSlices));
}

SourceAttr MoeLayerOp::sourceOf(ExpertPart part, uint32_t expert) {
  ArrayRef<SourceAttr> sources = matrix(part).getSources();
  if (sources.size() == getExperts())
    return sources[expert];
  SourceAttr all = sources.front();
  StringRef tensor = all.getTensor();
  bool isNumbered = tensor.contains(kExpertPlaceholder);
  auto [before, after] = tensor.split(kExpertPlaceholder);
  std::string name = isNumbered ? (before + Twine(expert) + after).str() : tensor.str();
  return SourceAttr::get(getContext(), name, all.getRows(), all.getCols(), all.getType(),
                         isNumbered ? all.getIndex() : expert, all.getFirstRow(), all.getRowStep(),
                         all.getTransposed(), all.getBlocks(), all.getBlockStep(),
                         all.getStackedVectors(), all.getAddsOne(), all.getIntegers(),
                         all.getShards());
}

LogicalResult KvSlotOp::verify() {
  if (getKvHeads() == 0 || getKeyDim() == 0)
    return emitOpError("expected at least one head with keys of at least one element");
  if (getKind() == KvKind::kInt8 && getValueDim() == 0)
    return emitOpError("keeps values in keys of int8, expected f16 or f32");
  return success();
}

void RopeTableOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                        const moert::Rope &rope) {
  build(builder, state, name, static_cast<RopeStyle>(rope.style),
        llvm::APFloat(rope.attentionFactor), builder.getF32ArrayAttr(rope.inverseFrequencies),
        IntegerAttr(), FloatAttr(), ArrayAttr());
  if (rope.originalPositions == 0)
    return;
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.setOriginalPositions(builder.getI32IntegerAttr(int32_t(rope.originalPositions)));
  properties.setLongAttentionFactor(builder.getF32FloatAttr(rope.longAttentionFactor));
  properties.setLongInverseFrequencies(builder.getF32ArrayAttr(rope.longInverseFrequencies));
}

LogicalResult RopeTableOp::verify() {
  if (getInverseFrequencies().empty())
    return emitOpError("a rotation without frequencies");
  std::optional<ArrayAttr> longer = getLongInverseFrequencies();
  if (getOriginalPositions().has_value() != longer.has_value() ||
      getLongAttentionFactor().has_value() != longer.has_value())
    return emitOpError("has a part of the rotation of long sequences, expected length, factor and "
                       "frequencies, or none");
  if (longer && longer->size() != getInverseFrequencies().size())
    return emitOpError() << longer->size() << " frequencies of long sequences, expected "
                         << getInverseFrequencies().size();
  return success();
}

LogicalResult StateSlotOp::verify() {
  if (getRows() == 0 || getWidth() == 0)
    return emitOpError("expected at least one row of at least one element");
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

void ProgramOp::build(OpBuilder &builder, OperationState &state, StringRef name) {
  state.getOrAddProperties<Properties>().setSymName(builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

LogicalResult ProgramOp::verifyRegions() {
  if (block().getNumArguments() != 0)
    return emitOpError("expected no arguments: rows begin with moe.embed");
  const bool encodes = getSymName() == StringRef(moert::programs::kEncode);
  if (block().empty() || (!encodes && !isa<HeadOp>(block().back())))
    return emitOpError("expected moe.head at the end");
  for (HeadOp head : block().getOps<HeadOp>())
    if (encodes || head != &block().back())
      return head.emitOpError("expected at the end of the program only");
  return success();
}

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &) {
  return checkProgram(*this);
}

} // namespace mlir::moe

#define GET_OP_CLASSES
#include "compiler/ir/MoeOps.cpp.inc"
