// Verifiers of programs and instructions. The instructions' widths and kinds are checked against
// the symbols; where buffers have offsets, the whole list is simulated on the arena.
#include "compiler/ir/SymbolChecks.h"

#include "runtime/base/CheckedMath.h"

#include "mlir/IR/Builders.h"

namespace mlir::moe {

static BufferType typeOf(Value buffer) {
  return cast<BufferType>(buffer.getType());
}

static LogicalResult expectF32(Operation *op, Value buffer, uint64_t width, StringRef name) {
  BufferType type = typeOf(buffer);
  if (type.getKind() != BufferKind::kF32 || type.getWidth() != width)
    return op->emitOpError() << name << " is " << type << ", expected f32 of width " << width;
  return success();
}

/// The input of a product: as wide as the weight's inputs, and quantized with the format's
/// activation group if and only if the format is quantized.
static LogicalResult expectInput(Operation *op, Value buffer, uint64_t cols, FormatAttr format,
                                 StringRef name) {
  if (!format.isQuantized())
    return expectF32(op, buffer, cols, name);
  BufferType type = typeOf(buffer);
  if (type.getKind() != BufferKind::kQuantized || type.getWidth() != cols ||
      type.getGroup() != format.getActivationGroup())
    return op->emitOpError() << name << " is " << type << ", expected quantized of width " << cols
                             << " with group " << format.getActivationGroup();
  return success();
}

static FailureOr<FormatAttr> formatOf(Operation *op, WeightOp weight) {
  if (!weight.getFormat())
    return op->emitOpError() << "weight @" << weight.getSymName() << " has no format";
  return *weight.getFormat();
}

//===----------------------------------------------------------------------===//
// Buffers and programs
//===----------------------------------------------------------------------===//

// Far beyond any arena; sums with the bytes of a buffer cannot overflow.
static constexpr int64_t kMaxOffset = int64_t(1) << 40;

LogicalResult BufferOp::verify() {
  int64_t offset = getOffset().value_or(0);
  if (offset < 0 || offset % static_cast<int64_t>(moert::kBufferAlignment) != 0)
    return emitOpError() << "at " << offset << ", expected a multiple of "
                         << moert::kBufferAlignment;
  if (offset > kMaxOffset)
    return emitOpError() << "at " << offset << ", expected at most " << kMaxOffset;
  if (!isa<ProgramOp>((*this)->getParentOp()) && !getBuffer().use_empty())
    return emitOpError("is used outside of a program, where it only declares an offset");
  return success();
}

void ProgramOp::build(OpBuilder &builder, OperationState &state, StringRef name) {
  state.getOrAddProperties<Properties>().setSymName(builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

namespace {

/// Simulates a program on its arena: tracks the buffers whose last written value is still valid.
class ArenaCheck {
public:
  LogicalResult execute(Operation *op);

private:
  LogicalResult write(Operation *op, Value buffer, ArrayRef<Value> reads, ArrayRef<Value> written);
  void invalidate(Value buffer);
  static bool overlap(Value a, Value b);

  DenseSet<Value> valid;
};

} // namespace

bool ArenaCheck::overlap(Value a, Value b) {
  auto begin = [](Value v) { return *cast<BufferOp>(v.getDefiningOp()).getOffset(); };
  auto end = [&](Value v) { return begin(v) + static_cast<int64_t>(typeOf(v).bytesPerToken()); };
  return begin(a) < end(b) && begin(b) < end(a);
}

void ArenaCheck::invalidate(Value buffer) {
  SmallVector<Value> lost;
  for (Value other : valid)
    if (overlap(other, buffer))
      lost.push_back(other);
  for (Value other : lost)
    valid.erase(other);
}

LogicalResult ArenaCheck::write(Operation *op, Value buffer, ArrayRef<Value> reads,
                                ArrayRef<Value> written) {
  // The instructions of Schedule.h with "dst may be" an input.
  bool mayBeInPlace = isa<ExecNormOp, ExecActivateOp, ExecAddOp, ExecGateRowsOp, ExecRopeOp>(op);
  for (Value other : reads)
    if (overlap(other, buffer) && !(mayBeInPlace && other == buffer))
      return op->emitOpError("overwrites bytes that it reads");
  for (Value other : written)
    if (overlap(other, buffer))
      return op->emitOpError("writes two buffers that share bytes");
  return success();
}

LogicalResult ArenaCheck::execute(Operation *op) {
  SmallVector<MemoryEffects::EffectInstance> effects;
  cast<MemoryEffectOpInterface>(op).getEffects(effects);
  SmallVector<Value> reads, writes;
  for (const MemoryEffects::EffectInstance &effect : effects)
    if (Value buffer = effect.getValue())
      (isa<MemoryEffects::Read>(effect.getEffect()) ? reads : writes).push_back(buffer);
  for (Value buffer : reads)
    if (!valid.contains(buffer))
      return op->emitOpError("reads a buffer that was never written or was overwritten");
  for (auto [i, buffer] : llvm::enumerate(writes))
    if (failed(write(op, buffer, reads, ArrayRef(writes).take_front(i))))
      return failure();
  for (Value buffer : writes)
    invalidate(buffer);
  // Scratch counts as written: no other instruction reads it.
  valid.insert(writes.begin(), writes.end());
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getNumArguments() != 0)
    return emitOpError("expected no arguments: buffers are declared by moe.buffer");
  if (block.empty() || !isa<ExecHeadOp>(block.back()))
    return emitOpError("expected moe.exec.head at the end");
  bool isPlanned = true, hasStarted = false;
  for (Operation &op : block) {
    if (auto buffer = dyn_cast<BufferOp>(op)) {
      if (hasStarted)
        return buffer.emitOpError("expected before the first instruction");
      isPlanned &= buffer.getOffset().has_value();
      continue;
    }
    hasStarted = true;
    if (op.getName().getStringRef().substr(0, 9) != "moe.exec.")
      return op.emitOpError("is not an instruction");
    if (isa<ExecHeadOp>(op) && &op != &block.back())
      return op.emitOpError("expected at the end of the program only");
  }
  if (!isPlanned)
    return success();
  ArenaCheck check;
  for (Operation &op : block)
    if (!isa<BufferOp>(op) && failed(check.execute(&op)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Instructions on buffers alone
//===----------------------------------------------------------------------===//

LogicalResult ExecQuantizeOp::verify() {
  BufferType src = typeOf(getSrc()), dst = typeOf(getDst());
  if (src.getKind() != BufferKind::kF32 || dst.getKind() != BufferKind::kQuantized ||
      src.getWidth() != dst.getWidth())
    return emitOpError() << "from " << src << " to " << dst
                         << ", expected f32 to quantized of the same width";
  return success();
}

/// Elementwise operands: all are f32 and equally wide.
static LogicalResult expectAlike(Operation *op, ArrayRef<Value> buffers) {
  for (Value buffer : buffers)
    if (failed(expectF32(op, buffer, typeOf(buffers.front()).getWidth(), "a buffer")))
      return failure();
  return success();
}

LogicalResult ExecActivateOp::verify() {
  return expectAlike(*this, {getGate(), getUp(), getDst()});
}

LogicalResult ExecAddOp::verify() {
  return expectAlike(*this, {getA(), getB(), getDst()});
}

LogicalResult ExecGateRowsOp::verify() {
  if (failed(expectF32(*this, getGate(), 1, "gate")))
    return failure();
  return expectAlike(*this, {getSrc(), getDst()});
}

//===----------------------------------------------------------------------===//
// Instructions on symbols
//===----------------------------------------------------------------------===//

LogicalResult ExecEmbedOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto weight = lookUp<WeightOp>(*this, symbols, getWeightAttr());
  if (!weight || failed(formatOf(*this, weight)))
    return failure();
  return expectF32(*this, getDst(), weight.cols(), "dst");
}

LogicalResult ExecNormOp::verifySymbolUses(SymbolTableCollection &symbols) {
  uint64_t width = typeOf(getSrc()).getWidth();
  if (failed(expectF32(*this, getSrc(), width, "src")) ||
      failed(expectF32(*this, getDst(), width, "dst")))
    return failure();
  return checkNorm(*this, symbols, getWeightAttr(), getBiasAttr(), width, getSegment());
}

LogicalResult ExecLinearOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto weight = lookUp<WeightOp>(*this, symbols, getWeightAttr());
  if (!weight)
    return failure();
  FailureOr<FormatAttr> format = formatOf(*this, weight);
  if (failed(format) || failed(expectInput(*this, getSrc(), weight.cols(), *format, "src")) ||
      failed(expectF32(*this, getDst(), weight.rows(), "dst")))
    return failure();
  return checkVector(*this, symbols, getBiasAttr(), weight.rows());
}

LogicalResult ExecRopeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto rope = lookUp<RopeOp>(*this, symbols, getRopeAttr());
  if (!rope)
    return failure();
  uint64_t rotated = 2 * rope.getInverseFrequencies().size();
  if (rotated > getHeadDim())
    return emitOpError() << "rotates " << rotated << " elements of a head of " << getHeadDim();
  return expectF32(*this, getBuffer(), uint64_t(getHeads()) * getHeadDim(), "buffer");
}

LogicalResult ExecStoreKvOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto slot = lookUp<KvSlotOp>(*this, symbols, getSlotAttr());
  if (!slot ||
      failed(expectF32(*this, getKey(), uint64_t(slot.getKvHeads()) * slot.getKeyDim(), "key")))
    return failure();
  return expectF32(*this, getValue(), uint64_t(slot.getKvHeads()) * slot.getValueDim(), "value");
}

LogicalResult ExecAttendOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto slot = lookUp<KvSlotOp>(*this, symbols, getSlotAttr());
  if (!slot)
    return failure();
  uint64_t heads = getHeads();
  if (heads == 0 || heads % slot.getKvHeads() != 0)
    return emitOpError() << heads << " heads over " << slot.getKvHeads()
                         << " key/value heads, expected a multiple";
  if (failed(expectF32(*this, getQuery(), heads * slot.getKeyDim(), "query")))
    return failure();
  return expectF32(*this, getDst(), heads * slot.getValueDim(), "dst");
}

/// The chosen experts and their weights: `topK` of each.
static LogicalResult expectChoice(Operation *op, Value experts, Value weights, uint64_t topK,
                                  MoeLayerOp layer) {
  BufferType type = typeOf(experts);
  if (type.getKind() != BufferKind::kI32 || type.getWidth() != topK)
    return op->emitOpError() << "experts is " << type << ", expected i32 of width " << topK;
  if (topK > layer.getExperts())
    return op->emitOpError() << "chooses " << topK << " of " << layer.getExperts() << " experts";
  return expectF32(op, weights, topK, "weights");
}

LogicalResult ExecRouteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto layer = lookUp<MoeLayerOp>(*this, symbols, getMoeLayerAttr());
  if (!layer || failed(expectF32(*this, getScores(), layer.getExperts(), "scores")))
    return failure();
  return expectChoice(*this, getExperts(), getWeights(), getTopK(), layer);
}

LogicalResult ExecPredictOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto layer = lookUp<MoeLayerOp>(*this, symbols, getMoeLayerAttr());
  if (!layer || failed(checkAhead(*this, layer, getAhead())) ||
      failed(checkRouterRole(*this, symbols, getWeightAttr())) ||
      failed(expectF32(*this, getScores(), layer.getExperts(), "scores")))
    return failure();
  WeightOp weight =
      checkWeight(*this, symbols, getWeightAttr(), layer.getExperts(), typeOf(getSrc()).getWidth());
  if (!weight)
    return failure();
  FailureOr<FormatAttr> format = formatOf(*this, weight);
  if (failed(format) || failed(expectInput(*this, getSrc(), weight.cols(), *format, "src")))
    return failure();
  return checkVector(*this, symbols, getBiasAttr(), weight.rows());
}

LogicalResult ExecExpertsOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto layer = lookUp<MoeLayerOp>(*this, symbols, getMoeLayerAttr());
  if (!layer)
    return failure();
  if (!layer.getSlices())
    return emitOpError() << "the experts of @" << layer.getSymName() << " have no slices";
  uint64_t topK = typeOf(getExperts()).getWidth();
  if (failed(expectChoice(*this, getExperts(), getWeights(), topK, layer)) ||
      failed(expectF32(*this, getDst(), layer.hidden(), "dst")) ||
      failed(expectF32(*this, getGate(), layer.width(), "gate")) ||
      failed(expectF32(*this, getUp(), layer.width(), "up")) ||
      failed(expectF32(*this, getRanks(),
                       topK * moert::roundUp(layer.hidden(), moert::kRankRowElements), "ranks")))
    return failure();
  auto first = cast<FormatAttr>(cast<ArrayAttr>((*layer.getSlices())[0])[0]);
  if (first.isQuantized() != static_cast<bool>(getHidden()))
    return emitOpError("expected the hidden buffer if and only if the experts are quantized");
  for (auto list : layer.getSlices()->getAsRange<ArrayAttr>())
    for (FormatAttr format : list.getAsRange<FormatAttr>())
      if (failed(expectInput(*this, getSrc(), layer.hidden(), format, "src")) ||
          failed(expectInput(*this, getGathered(), layer.hidden(), format, "gathered")) ||
          (getHidden() && failed(expectInput(*this, getHidden(), layer.width(), format, "hidden"))))
        return failure();
  return success();
}

LogicalResult ExecHeadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto weight = lookUp<WeightOp>(*this, symbols, getWeightAttr());
  if (!weight)
    return failure();
  FailureOr<FormatAttr> format = formatOf(*this, weight);
  if (failed(format) || failed(expectInput(*this, getSrc(), weight.cols(), *format, "src")))
    return failure();
  return checkVector(*this, symbols, getBiasAttr(), weight.rows());
}

} // namespace mlir::moe
