#include "passes/ExpandProgram.h"

#include "passes/Expander.h"
#include "passes/WeightFormats.h"
#include "runtime/base/CheckedMath.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mlir::moe {

//===----------------------------------------------------------------------===//
// Buffers and products
//===----------------------------------------------------------------------===//

Value Expander::newBuffer(BufferKind kind, uint64_t width, uint64_t group) {
  OpBuilder::InsertionGuard guard(builder);
  Block &block = program->getBody().front();
  if (lastBuffer)
    builder.setInsertionPointAfter(lastBuffer);
  else
    builder.setInsertionPointToStart(&block);
  auto type = BufferType::get(builder.getContext(), kind, static_cast<uint32_t>(width),
                              static_cast<uint32_t>(group));
  auto buffer = BufferOp::create(builder, function.getLoc(), type, IntegerAttr());
  lastBuffer = buffer;
  return buffer;
}

/// The row in the form that a product with such a weight needs.
Value Expander::inputFor(Location loc, FormatAttr format, Value row) {
  if (!format.isQuantized())
    return row;
  uint32_t group = format.getActivationGroup();
  for (Value known : quantized[row])
    if (auto type = cast<BufferType>(known.getType());
        type.getGroup() == group && type.getKind() == format.getInputKind())
      return known;
  Value copy = newBuffer(format.getInputKind(), cast<BufferType>(row.getType()).getWidth(), group);
  execute<ExecQuantizeOp>(loc, row, copy);
  quantized[row].push_back(copy);
  return copy;
}

FailureOr<Value> Expander::linear(Operation *op, LinearAttr linear, Value input, ProductRole role) {
  auto weight = symbol<WeightOp>(linear.getWeight());
  FailureOr<FormatAttr> format = formatOf(op, weight);
  if (failed(format))
    return failure();
  Value src = inputFor(op->getLoc(), *format, input);
  Value dst = newRow(weight.rows());
  execute<ExecLinearOp>(op->getLoc(), src, dst, linear.getWeight(), linear.getBias(),
                        ProductRoleAttr::get(builder.getContext(), role), UnitAttr());
  return dst;
}

FailureOr<Value> Expander::glu(Operation *op, GluAttr network, Value input) {
  FailureOr<Value> gate = linear(op, network.getGate(), input);
  if (failed(gate))
    return failure();
  FailureOr<Value> up = linear(op, network.getUp(), input);
  if (failed(up))
    return failure();
  execute<ExecActivateOp>(op->getLoc(), *gate, *up, *gate, network.getActivation(),
                          network.getAlpha(), network.getLimit());
  return linear(op, network.getDown(), *gate);
}

bool Expander::isLastUse(Value value, Operation *op) {
  return llvm::all_of(value.getUsers(),
                      [&](Operation *user) { return user == op || user->isBeforeInBlock(op); });
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

LogicalResult Expander::expand(EmbedOp op) {
  if (failed(formatOf(op, symbol<WeightOp>(op.getWeightAttr()))))
    return failure();
  Value row = newRow(widthOf(op.getResult()));
  execute<ExecEmbedOp>(op.getLoc(), row, op.getWeightAttr(), op.getScaleAttr());
  buffers[op.getResult()] = row;
  return success();
}

LogicalResult Expander::expand(NormOp op) {
  Value src = bufferOf(op.getInput());
  Value dst = isLastUse(op.getInput(), op) ? src : newRow(widthOf(op.getInput()));
  NormAttr norm = op.getNorm();
  execute<ExecNormOp>(op.getLoc(), src, dst, norm.getWeight(), norm.getBias(),
                      NormKindAttr::get(builder.getContext(), norm.getKind()), norm.getEpsilon(),
                      builder.getI32IntegerAttr(static_cast<int32_t>(widthOf(op.getInput()))));
  buffers[op.getResult()] = dst;
  return success();
}

void Expander::headNorm(Location loc, std::optional<NormAttr> norm, Value row) {
  if (!norm)
    return;
  uint32_t segment = symbol<WeightOp>(norm->getWeight()).cols();
  execute<ExecNormOp>(loc, row, row, norm->getWeight(), norm->getBias(),
                      NormKindAttr::get(builder.getContext(), norm->getKind()), norm->getEpsilon(),
                      builder.getI32IntegerAttr(static_cast<int32_t>(segment)));
}

/// The values: `value` normed, or the norm of `key` if that is their product too.
Value Expander::valueOf(AttentionOp op, Value key, Value value) {
  if (!op.getValueNorm())
    return value;
  Value src = op.getValue() ? value : key;
  Value dst = op.getValue() ? value : newRow(cast<BufferType>(key.getType()).getWidth());
  auto slot = symbol<KvSlotOp>(op.getSlotAttr());
  execute<ExecNormOp>(op.getLoc(), src, dst, FlatSymbolRefAttr(), FlatSymbolRefAttr(),
                      NormKindAttr::get(builder.getContext(), NormKind::kRms),
                      op.getValueNormAttr(),
                      builder.getI32IntegerAttr(static_cast<int32_t>(slot.getValueDim())));
  return dst;
}

LogicalResult Expander::expand(AttentionOp op) {
  Location loc = op.getLoc();
  Value input = bufferOf(op.getInput());
  auto slot = symbol<KvSlotOp>(op.getSlotAttr());
  auto product = [&](LinearAttr of, Value row) {
    return linear(op, of, row, ProductRole::kAttention);
  };
  FailureOr<Value> query = product(op.getQuery(), input), key = failure(), value = failure();
  if (failed(query) || failed(key = product(op.getKey(), input)) ||
      failed(value = op.getValue() ? product(*op.getValue(), input) : key))
    return failure();
  std::optional<Value> gate; // Computed together with the others.
  if (std::optional<LinearAttr> linear = op.getGate()) {
    FailureOr<Value> computed = product(*linear, input);
    if (failed(computed))
      return failure();
    gate = *computed;
  }
  value = valueOf(op, *key, *value);
  const auto normalize = [&] {
    headNorm(loc, op.getQueryNorm(), *query);
    headNorm(loc, op.getKeyNorm(), *key);
  };
  if (!op.getNormsAfterRope())
    normalize();
  if (op.getClip())
    for (Value row : {*query, *key, *value})
      execute<ExecClampOp>(loc, row, op.getClipAttr());
  if (op.getRope()) {
    execute<ExecRopeOp>(loc, *query, op.getHeads(), slot.getKeyDim(), *op.getRope());
    execute<ExecRopeOp>(loc, *key, slot.getKvHeads(), slot.getKeyDim(), *op.getRope());
  }
  if (op.getNormsAfterRope())
    normalize();
  if (FloatAttr epsilon = op.getPlainNormAttr())
    for (Value row : {*query, *key})
      execute<ExecNormOp>(loc, row, row, FlatSymbolRefAttr(), FlatSymbolRefAttr(),
                          NormKindAttr::get(builder.getContext(), NormKind::kRms), epsilon,
                          builder.getI32IntegerAttr(static_cast<int32_t>(slot.getKeyDim())));
  if (op.getQueryScale())
    execute<ExecScaleByPositionOp>(loc, *query, op.getQueryScaleAttr(),
                                   op.getQueryScalePeriodAttr());
  execute<ExecStoreKvOp>(loc, *key, *value, op.getSlotAttr());
  Value attended = newRow(uint64_t(op.getHeads()) * slot.getValueDim());
  execute<ExecAttendOp>(loc, *query, attended, op.getSlot(), op.getHeads(),
                        op.getWindow().value_or(0), op.getScale(), op.getSinksAttr(),
                        op.getChunked());
  if (gate)
    execute<ExecGateOp>(loc, attended, *gate, attended,
                        GateKindAttr::get(builder.getContext(), GateKind::kSigmoid));
  FailureOr<Value> output = product(op.getOutput(), attended);
  if (failed(output))
    return failure();
  buffers[op.getResult()] = *output;
  return success();
}

LogicalResult Expander::expand(LatentAttentionOp op) {
  Location loc = op.getLoc();
  Value input = bufferOf(op.getInput());
  uint32_t heads = op.getHeads(), keyDim = symbol<KvSlotOp>(op.getSlotAttr()).getKeyDim();
  auto keyUp = symbol<WeightOp>(op.getKeyUpAttr()), valueUp = symbol<WeightOp>(op.getValueUpAttr());
  uint32_t rank = valueUp.cols(), shared = keyDim - rank;
  auto product = [&](LinearAttr of, Value row) {
    return linear(op, of, row, ProductRole::kAttention);
  };
  auto perHead = [&](Value src, WeightOp weight, uint32_t kept) {
    Value dst = newRow(weight.rows() + uint64_t(heads) * kept);
    execute<ExecLinearHeadsOp>(loc, src, dst, weight.getSymName(), heads, kept);
    return dst;
  };
  if (failed(formatOf(op, keyUp)) || failed(formatOf(op, valueUp)))
    return failure();
  // First the products of the input, which are computed together.
  FailureOr<Value> query = product(op.getQueryDown().value_or(op.getQuery()), input),
                   key = failure(), latent = failure(), output = failure();
  if (failed(query) || failed(key = product(op.getKey(), input)) ||
      failed(latent = product(op.getLatent(), input)))
    return failure();
  headNorm(loc, op.getLatentNorm(), *latent);
  headNorm(loc, op.getQueryNorm(), *query);
  if (op.getQueryDown() && failed(query = product(op.getQuery(), *query)))
    return failure();
  Value absorbed = perHead(*query, keyUp, shared);
  if (op.getRope()) {
    execute<ExecRopeOp>(loc, absorbed, heads, keyDim, *op.getRope());
    execute<ExecRopeOp>(loc, *key, 1u, shared, *op.getRope());
  }
  execute<ExecStoreKvOp>(loc, *key, *latent, op.getSlotAttr());
  Value attended = newRow(uint64_t(heads) * rank);
  execute<ExecAttendOp>(loc, absorbed, attended, op.getSlot(), heads, 0u, op.getScale(),
                        FlatSymbolRefAttr());
  if (failed(output = product(op.getOutput(), perHead(attended, valueUp, 0))))
    return failure();
  buffers[op.getResult()] = *output;
  return success();
}

LogicalResult Expander::expand(RouteOp op) {
  FailureOr<Value> scores =
      linear(op, op.getRouter(), bufferOf(op.getInput()), ProductRole::kRouter);
  if (failed(scores))
    return failure();
  uint64_t topK = widthOf(op.getExperts());
  Value experts = newBuffer(BufferKind::kI32, topK), weights = newRow(topK);
  IntegerAttr groupCount, keptGroups;
  GroupScoreAttr groupScore;
  if (std::optional<RouterGroupsAttr> groups = op.getGroups()) {
    groupCount = builder.getI32IntegerAttr(static_cast<int32_t>(groups->getCount()));
    keptGroups = builder.getI32IntegerAttr(static_cast<int32_t>(groups->getKept()));
    groupScore = GroupScoreAttr::get(builder.getContext(), groups->getScore());
  }
  execute<ExecRouteOp>(op.getLoc(), *scores, experts, weights, op.getMoeLayerAttr(),
                       op.getScoringAttr(), op.getRenormalizeAttr(), op.getWeightScaleAttr(),
                       op.getChoiceBiasAttr(), groupCount, keptGroups, groupScore,
                       op.getWeightFactorsAttr(), op.getToleranceAttr(), UnitAttr());
  buffers[op.getExperts()] = experts;
  buffers[op.getWeights()] = weights;
  return success();
}

LogicalResult Expander::expand(PredictOp op) {
  auto weight = symbol<WeightOp>(op.getRouter().getWeight());
  FailureOr<FormatAttr> format = formatOf(op, weight);
  if (failed(format))
    return failure();
  Value src = inputFor(op.getLoc(), *format, bufferOf(op.getInput()));
  execute<ExecPredictOp>(op.getLoc(), src, newRow(weight.rows()), op.getRouter().getWeight(),
                         op.getRouter().getBias(), op.getMoeLayerAttr(), op.getAheadAttr(),
                         UnitAttr(), UnitAttr());
  return success();
}

LogicalResult Expander::expand(ExpertsOp op) {
  auto experts = symbol<MoeLayerOp>(op.getMoeLayerAttr());
  FailureOr<FormatAttr> format = commonFormat(op, experts);
  if (failed(format))
    return failure();
  Value row = bufferOf(op.getInput());
  if (experts.getScaledInputs()) {
    Value scaled = newRow(experts.hidden());
    execute<ExecScaleInputOp>(op.getLoc(), row, bufferOf(op.getWeights()), scaled);
    row = scaled;
  }
  Value src = inputFor(op.getLoc(), *format, row);
  auto srcType = cast<BufferType>(src.getType());
  Value dst = newRow(experts.hidden());
  Value gathered = newBuffer(srcType.getKind(), srcType.getWidth(), srcType.getGroup());
  Value gate = newRow(experts.width()), up = newRow(experts.width());
  Value ranks =
      newRow(widthOf(op.getExperts()) * moert::roundUp(experts.hidden(), moert::kRankRowElements));
  Value hidden;
  if (format->isQuantized())
    hidden = newBuffer(format->getInputKind(), experts.width(), format->getActivationGroup());
  execute<ExecExpertsOp>(op.getLoc(), src, bufferOf(op.getExperts()), bufferOf(op.getWeights()),
                         dst, op.getMoeLayerAttr(), gathered, gate, up, hidden, ranks,
                         op.getGateBiasAttr(), op.getUpBiasAttr(), op.getDownBiasAttr());
  beginReads();
  buffers[op.getResult()] = dst;
  return success();
}

/// The reads of the experts that come last begin after their route, and after the predictions that
/// follow it: those belong to the same layer pass.
void Expander::beginReads() {
  for (Operation &op : llvm::reverse(program->getBody().front())) {
    if (auto predict = dyn_cast<ExecPredictOp>(op))
      return predict.setBeginsReads(true);
    if (auto route = dyn_cast<ExecRouteOp>(op))
      return route.setBeginsReads(true);
  }
}

LogicalResult Expander::expand(SharedExpertOp op) {
  Value input = bufferOf(op.getInput());
  FailureOr<Value> result = glu(op, op.getNetwork(), input);
  if (failed(result))
    return failure();
  if (std::optional<LinearAttr> gate = op.getGate()) {
    FailureOr<Value> score = linear(op, *gate, input);
    if (failed(score))
      return failure();
    execute<ExecGateRowsOp>(op.getLoc(), *result, *score, *result);
  }
  buffers[op.getResult()] = *result;
  return success();
}

LogicalResult Expander::expand(DenseOp op) {
  FailureOr<Value> result = glu(op, op.getNetwork(), bufferOf(op.getInput()));
  if (failed(result))
    return failure();
  buffers[op.getResult()] = *result;
  return success();
}

LogicalResult Expander::expand(AddOp op) {
  Value a = bufferOf(op.getA()), b = bufferOf(op.getB());
  Value dst = isLastUse(op.getA(), op)   ? a
              : isLastUse(op.getB(), op) ? b
                                         : newRow(widthOf(op.getResult()));
  execute<ExecAddOp>(op.getLoc(), a, b, dst, op.getScaleAttr());
  buffers[op.getResult()] = dst;
  return success();
}

LogicalResult Expander::expand(ScaleOp op) {
  Value src = bufferOf(op.getInput());
  Value dst = isLastUse(op.getInput(), op) ? src : newRow(widthOf(op.getResult()));
  execute<ExecScaleOp>(op.getLoc(), src, dst, op.getWeightAttr(), op.getFactorAttr());
  buffers[op.getResult()] = dst;
  return success();
}

LogicalResult Expander::expand(HeadOp op) {
  auto weight = symbol<WeightOp>(op.getLinear().getWeight());
  FailureOr<FormatAttr> format = formatOf(op, weight);
  if (failed(format))
    return failure();
  Value src = inputFor(op.getLoc(), *format, bufferOf(op.getInput()));
  execute<ExecHeadOp>(op.getLoc(), src, op.getLinear().getWeight(), op.getLinear().getBias(),
                      op.getScaleAttr(), op.getSoftCapAttr());
  return success();
}

LogicalResult Expander::expandOp(Operation *op) {
  layer = op->getAttr(kLayerAttr);
  if (!isa<EmbedOp, func::ReturnOp>(op))
    for (Value operand : op->getOperands())
      if (!buffers.contains(operand))
        return op->emitOpError("reads rows that no instruction writes");
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<EmbedOp, NormOp, AttentionOp, LatentAttentionOp, DeltaNetOp, ShortConvolutionOp,
            RouteOp, PredictOp, ExpertsOp, SharedExpertOp, DenseOp, AddOp, ScaleOp, HeadOp>(
          [&](auto part) { return expand(part); })
      .Case<BufferOp, func::ReturnOp>([](Operation *) { return success(); })
      .Default([](Operation *other) {
        return other->emitOpError("has no instructions to lower it to");
      });
}

FailureOr<OwningOpRef<ProgramOp>> Expander::expand() {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitOpError("expected one block, found a declaration or branches");
  builder.setInsertionPointToEnd(&program->getBody().front());
  for (Operation &op : function.getBody().front())
    if (failed(expandOp(&op)))
      return failure();
  return std::move(program);
}

FailureOr<OwningOpRef<ProgramOp>> expandProgram(func::FuncOp function) {
  return Expander(function).expand();
}

} // namespace mlir::moe
