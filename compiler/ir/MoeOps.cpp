// Verifiers of the symbols and the layer ops of the dialect `moe`.
#include "compiler/ir/SymbolChecks.h"
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
  if (getSource().getType() == WeightKind::kMxfp4)
    return emitOpError("a source of mxfp4, which only experts have");
  std::optional<FormatAttr> format = getFormat();
  if (!format)
    return success();
  if (const auto kind = static_cast<moert::WeightKind>(format->getKind());
      kind == moert::WeightKind::kMxfp4 || moert::planesOf(kind).size() > 1)
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
  for (auto [i, attribute] : llvm::enumerate(matrices)) {
    auto matrix = cast<ExpertMatrixAttr>(attribute);
    size_t sources = matrix.getSources().size();
    if (i > 2 || static_cast<size_t>(matrix.getPart()) != i)
      return op.emitOpError("expected the matrices gate, up and down, in this order");
    if (sources != 1 && sources != op.getExperts())
      return op.emitOpError() << stringifyExpertPart(matrix.getPart()) << " has " << sources
                              << " sources, expected 1 or " << op.getExperts();
  }
  if (matrices.size() != 3)
    return op.emitOpError("expected the matrices gate, up and down, in this order");
  ExpertMatrixAttr gate = op.matrix(ExpertPart::kGate), up = op.matrix(ExpertPart::kUp),
                   down = op.matrix(ExpertPart::kDown);
  if (up.rows() != gate.rows() || up.cols() != gate.cols())
    return op.emitOpError() << "up is " << up.rows() << " x " << up.cols() << ", expected "
                            << gate.rows() << " x " << gate.cols() << " like gate";
  if (down.rows() != gate.cols() || down.cols() != gate.rows())
    return op.emitOpError() << "down is " << down.rows() << " x " << down.cols() << ", expected "
                            << gate.cols() << " x " << gate.rows();
  return success();
}

/// MXFP4 is kept from a checkpoint that has it; nothing is rounded to it.
static LogicalResult verifyMxfp4(MoeLayerOp op, uint32_t expert) {
  for (ExpertPart part : {ExpertPart::kGate, ExpertPart::kUp, ExpertPart::kDown})
    if (WeightKind type = op.sourceOf(part, expert).getType(); type != WeightKind::kMxfp4)
      return op.emitOpError() << "expert " << expert << ": slices of mxfp4, but "
                              << stringifyExpertPart(part) << " is stored as "
                              << stringifyWeightKind(type);
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
    if (formats[moert::lowCopySlicesOf(formats)].gateUp.kind == moert::WeightKind::kMxfp4 &&
        failed(verifyMxfp4(op, expert)))
      return failure();
  }
  return success();
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
                         all.getStackedVectors(), all.getAddsOne());
}

LogicalResult KvSlotOp::verify() {
  if (getKvHeads() == 0 || getKeyDim() == 0)
    return emitOpError("expected at least one head with keys of at least one element");
  if (getKind() == KvKind::kInt8 && getValueDim() == 0)
    return emitOpError("keeps values in keys of int8, expected f16 or f32");
  return success();
}

LogicalResult RopeOp::verify() {
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

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

static LogicalResult checkGlu(Operation *op, SymbolTableCollection &symbols, GluAttr network,
                              uint64_t hidden) {
  auto gate = lookUp<WeightOp>(op, symbols, network.getGate().getWeight());
  if (!gate)
    return failure();
  uint64_t width = gate.rows();
  if (failed(checkLinear(op, symbols, network.getGate(), width, hidden)) ||
      failed(checkLinear(op, symbols, network.getUp(), width, hidden)))
    return failure();
  return checkLinear(op, symbols, network.getDown(), hidden, width);
}

LogicalResult EmbedOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getResult());
  auto weight = lookUp<WeightOp>(*this, symbols, getWeightAttr());
  if (failed(width) || !weight)
    return failure();
  if (weight.getFormat() && weight.getFormat()->getHadamard())
    return emitOpError() << "reads @" << weight.getSymName()
                         << " with the Hadamard transform, expected rows without it";
  return success(
      static_cast<bool>(checkWeight(*this, symbols, getWeightAttr(), weight.rows(), *width)));
}

LogicalResult NormOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput());
  if (failed(width))
    return failure();
  return checkNorm(*this, symbols, getNorm().getWeight(), getNorm().getBias(), *width, *width);
}

/// A norm of queries or keys: per head or over all of them.
static LogicalResult checkHeadNorm(AttentionOp op, SymbolTableCollection &symbols,
                                   std::optional<NormAttr> norm, uint64_t heads, uint64_t headDim) {
  if (!norm)
    return success();
  auto weight = lookUp<WeightOp>(op, symbols, norm->getWeight());
  if (!weight)
    return failure();
  if (weight.cols() != headDim && weight.cols() != heads * headDim)
    return op.emitOpError() << "weight " << norm->getWeight() << " has " << weight.cols()
                            << " elements, expected " << headDim << " (per head) or "
                            << heads * headDim << " (all heads)";
  return checkNorm(op, symbols, norm->getWeight(), norm->getBias(), heads * headDim, weight.cols());
}

/// A rotation, if there is one, of heads of `width` elements.
static LogicalResult checkRotation(Operation *op, SymbolTableCollection &symbols,
                                   FlatSymbolRefAttr name, uint64_t width) {
  if (!name)
    return success();
  auto rope = lookUp<RopeOp>(op, symbols, name);
  if (!rope)
    return failure();
  uint64_t rotated = 2 * rope.getInverseFrequencies().size();
  if (rotated > width)
    return op->emitOpError() << "rotates " << rotated << " elements of a head of " << width;
  return success();
}

/// Values: products of their own, or those of the keys.
static LogicalResult checkValue(AttentionOp op, SymbolTableCollection &symbols, KvSlotOp slot,
                                uint64_t width) {
  std::optional<APFloat> epsilon = op.getValueNorm();
  if (epsilon && (epsilon->isNegative() || !epsilon->isFinite()))
    return op.emitOpError("expected an epsilon of the values' norm of at least 0");
  uint64_t kvHeads = slot.getKvHeads(), keyDim = slot.getKeyDim(), valueDim = slot.getValueDim();
  if (op.getValue())
    return checkLinear(op, symbols, *op.getValue(), kvHeads * valueDim, width);
  if (!epsilon)
    return op.emitOpError("expected a norm of values that are the products of keys");
  if (keyDim != valueDim)
    return op.emitOpError() << "stores values of " << valueDim
                            << " elements, expected those of a key, " << keyDim;
  return success();
}

LogicalResult AttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput());
  auto slot = lookUp<KvSlotOp>(*this, symbols, getSlotAttr());
  if (failed(width) || !slot)
    return failure();
  uint64_t heads = getHeads(), kvHeads = slot.getKvHeads(), keyDim = slot.getKeyDim(),
           valueDim = slot.getValueDim();
  if (heads == 0 || heads % kvHeads != 0)
    return emitOpError() << heads << " heads over " << kvHeads
                         << " key/value heads, expected a multiple";
  if (failed(checkLinear(*this, symbols, getQuery(), heads * keyDim, *width)) ||
      failed(checkLinear(*this, symbols, getKey(), kvHeads * keyDim, *width)) ||
      failed(checkValue(*this, symbols, slot, *width)) ||
      failed(checkLinear(*this, symbols, getOutput(), *width, heads * valueDim)) ||
      (getGate() && failed(checkLinear(*this, symbols, *getGate(), heads * valueDim, *width))) ||
      failed(checkHeadNorm(*this, symbols, getQueryNorm(), heads, keyDim)) ||
      failed(checkHeadNorm(*this, symbols, getKeyNorm(), kvHeads, keyDim)) ||
      failed(checkVector(*this, symbols, getSinksAttr(), heads)))
    return failure();
  if (getChunked() && getWindow().value_or(0) == 0)
    return emitOpError("chunked without a window, which is the size of a chunk");
  return checkRotation(*this, symbols, getRopeAttr(), keyDim);
}

/// A matrix of a product per head: `rows` and `cols` of each head.
static LogicalResult checkHeadsWeight(LatentAttentionOp op, SymbolTableCollection &symbols,
                                      FlatSymbolRefAttr name, uint64_t rows, uint64_t cols) {
  WeightOp weight = checkWeight(op, symbols, name, op.getHeads() * rows, cols);
  if (!weight)
    return failure();
  if (weight.getRole() != WeightRole::kHeads)
    return op.emitOpError() << "weight " << name << " has the role "
                            << stringifyWeightRole(weight.getRole()) << ", expected heads";
  return success();
}

/// The queries' input: the normed input itself, or its down-projection.
static FailureOr<uint64_t> checkQueryDown(LatentAttentionOp op, SymbolTableCollection &symbols,
                                          uint64_t width) {
  std::optional<LinearAttr> down = op.getQueryDown();
  std::optional<NormAttr> norm = op.getQueryNorm();
  if (down.has_value() != norm.has_value())
    return op.emitOpError("expected a norm with the down-projection of queries, and none without");
  if (!down)
    return width;
  auto weight = lookUp<WeightOp>(op, symbols, down->getWeight());
  if (!weight || failed(checkLinear(op, symbols, *down, weight.rows(), width)) ||
      failed(
          checkNorm(op, symbols, norm->getWeight(), norm->getBias(), weight.rows(), weight.rows())))
    return failure();
  return uint64_t(weight.rows());
}

LogicalResult LatentAttentionOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput());
  auto slot = lookUp<KvSlotOp>(*this, symbols, getSlotAttr());
  auto key = lookUp<WeightOp>(*this, symbols, getKey().getWeight());
  auto latent = lookUp<WeightOp>(*this, symbols, getLatent().getWeight());
  auto keyUp = lookUp<WeightOp>(*this, symbols, getKeyUpAttr());
  auto valueUp = lookUp<WeightOp>(*this, symbols, getValueUpAttr());
  if (failed(width) || !slot || !key || !latent || !keyUp || !valueUp)
    return failure();
  uint64_t heads = getHeads(), shared = key.rows(), rank = latent.rows(), rest = keyUp.cols();
  if (heads == 0 || valueUp.rows() % heads != 0)
    return emitOpError() << valueUp.rows() << " results of " << heads
                         << " heads, expected a multiple";
  if (slot.getKvHeads() != 1 || slot.getKeyDim() != shared + rank || slot.getValueDim() != 0)
    return emitOpError() << "stores keys of " << shared << " + " << rank
                         << " elements, expected a slot with heads 1 key " << shared + rank
                         << " value 0";
  FailureOr<uint64_t> queryInput = checkQueryDown(*this, symbols, *width);
  uint64_t valueDim = valueUp.rows() / heads;
  NormAttr norm = getLatentNorm();
  if (failed(queryInput) ||
      failed(checkLinear(*this, symbols, getQuery(), heads * (rest + shared), *queryInput)) ||
      failed(checkLinear(*this, symbols, getKey(), shared, *width)) ||
      failed(checkLinear(*this, symbols, getLatent(), rank, *width)) ||
      failed(checkNorm(*this, symbols, norm.getWeight(), norm.getBias(), rank, rank)) ||
      failed(checkHeadsWeight(*this, symbols, getKeyUpAttr(), rank, rest)) ||
      failed(checkHeadsWeight(*this, symbols, getValueUpAttr(), valueDim, rank)) ||
      failed(checkLinear(*this, symbols, getOutput(), *width, heads * valueDim)))
    return failure();
  return checkRotation(*this, symbols, getRopeAttr(), shared);
}

LogicalResult checkGroups(Operation *op, std::optional<RouterGroupsAttr> groups, uint64_t experts,
                          uint64_t topK) {
  if (!groups)
    return success();
  if (experts % groups->getCount() != 0)
    return op->emitOpError() << experts << " experts in " << groups->getCount()
                             << " groups, expected a multiple";
  if (experts / groups->getCount() * groups->getKept() < topK)
    return op->emitOpError() << "chooses " << topK << " of the "
                             << experts / groups->getCount() * groups->getKept()
                             << " experts in the kept groups";
  return success();
}

LogicalResult RouteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput()), ids = widthOf(*this, getExperts()),
                      weights = widthOf(*this, getWeights());
  auto layer = lookUp<MoeLayerOp>(*this, symbols, getMoeLayerAttr());
  if (failed(width) || failed(ids) || failed(weights) || !layer)
    return failure();
  if (*ids != *weights || *ids > layer.getExperts())
    return emitOpError() << "chooses " << *ids << " experts with " << *weights
                         << " weights, expected the same number, at most " << layer.getExperts();
  if (failed(checkLinear(*this, symbols, getRouter(), layer.getExperts(), *width)) ||
      failed(checkVector(*this, symbols, getChoiceBiasAttr(), layer.getExperts())) ||
      failed(checkVector(*this, symbols, getWeightFactorsAttr(), layer.getExperts())) ||
      failed(checkGroups(*this, getGroups(), layer.getExperts(), *ids)))
    return failure();
  return checkRouterRole(*this, symbols, getRouter().getWeight());
}

LogicalResult PredictOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput());
  auto layer = lookUp<MoeLayerOp>(*this, symbols, getMoeLayerAttr());
  if (failed(width) || !layer || failed(checkAhead(*this, layer, getAhead())) ||
      failed(checkLinear(*this, symbols, getRouter(), layer.getExperts(), *width)))
    return failure();
  return checkRouterRole(*this, symbols, getRouter().getWeight());
}

LogicalResult ExpertsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput()), ids = widthOf(*this, getExperts()),
                      weights = widthOf(*this, getWeights());
  auto layer = lookUp<MoeLayerOp>(*this, symbols, getMoeLayerAttr());
  if (failed(width) || failed(ids) || failed(weights) || !layer)
    return failure();
  if (*ids != *weights || *ids > layer.getExperts())
    return emitOpError() << "takes " << *ids << " experts with " << *weights
                         << " weights, expected the same number, at most " << layer.getExperts();
  if (*width != layer.hidden())
    return emitOpError() << "rows of " << *width << " for experts of " << layer.hidden()
                         << " inputs";
  if (layer.getScaledInputs() && *ids != 1)
    return emitOpError() << "scales the input of " << *ids << " experts per token, expected one";
  const uint64_t all = layer.getExperts();
  if (failed(checkVector(*this, symbols, getGateBiasAttr(), all * layer.width())) ||
      failed(checkVector(*this, symbols, getUpBiasAttr(), all * layer.width())))
    return failure();
  return checkVector(*this, symbols, getDownBiasAttr(), all * layer.hidden());
}

LogicalResult SharedExpertOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput());
  if (failed(width) || failed(checkGlu(*this, symbols, getNetwork(), *width)))
    return failure();
  std::optional<LinearAttr> gate = getGate();
  if (!gate)
    return success();
  if (failed(checkLinear(*this, symbols, *gate, 1, *width)))
    return failure();
  return checkRouterRole(*this, symbols, gate->getWeight());
}

LogicalResult DenseOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput());
  if (failed(width))
    return failure();
  return checkGlu(*this, symbols, getNetwork(), *width);
}

LogicalResult ScaleOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (failed(widthOf(*this, getInput())))
    return failure();
  return checkVector(*this, symbols, getWeightAttr(), 1);
}

LogicalResult HeadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  FailureOr<uint64_t> width = widthOf(*this, getInput()), vocabulary = widthOf(*this, getLogits());
  if (failed(width) || failed(vocabulary))
    return failure();
  if (std::optional<APFloat> cap = getSoftCap())
    if (!cap->isFinite() || cap->isNegative() || cap->isZero())
      return emitOpError("expected a soft cap above 0");
  return checkLinear(*this, symbols, getLinear(), *vocabulary, *width);
}

} // namespace mlir::moe

#define GET_OP_CLASSES
#include "compiler/ir/MoeOps.cpp.inc"
