#include "compiler/ir/BuildModel.h"

#include "compiler/ir/ModelBuilder.h"
#include "compiler/ir/SourceAttrs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

namespace moec {

//===----------------------------------------------------------------------===//
// Symbols
//===----------------------------------------------------------------------===//

SourceAttr ModelBuilder::sourceOf(Location loc, const WeightSource &source, SourceOf use) {
  moert::Result<StoredType> type = storedTypeOf(source);
  if (!type.isOk()) {
    emitError(loc) << type.status().message();
    hasFailed = true;
    return {};
  }
  // BF16 holds every value of MXFP4 too.
  if (use == SourceOf::kResident && *type == StoredType::kMxfp4)
    type = StoredType::kBf16;
  auto attribute = SourceAttr::getChecked(
      [&] { return emitError(loc); }, builder.getContext(), StringRef(source.tensor), source.rows,
      source.cols, kindOf(*type), source.index ? *source.index : kAbsent, source.firstRow,
      source.rowStep, source.transposed, source.blocks, source.blockStep, source.stackedVectors,
      source.addsOne);
  hasFailed |= !attribute;
  return attribute;
}

FlatSymbolRefAttr ModelBuilder::weight(const Twine &name, const WeightSource &from,
                                       WeightRole role) {
  Location loc = named(name);
  if (SourceAttr attribute = hasFailed ? SourceAttr() : sourceOf(loc, from, SourceOf::kResident))
    WeightOp::create(builder, loc, name.str(), role, attribute,
                     role == WeightRole::kMatrix && !widthClass.empty()
                         ? builder.getStringAttr(widthClass)
                         : StringAttr(),
                     IntegerAttr(), FormatAttr());
  return FlatSymbolRefAttr::get(builder.getContext(), name.str());
}

LinearAttr ModelBuilder::linear(const Twine &name, const LinearDescription &from, WeightRole role) {
  FlatSymbolRefAttr matrix = weight(name, from.weight, role), bias;
  if (from.bias)
    bias = weight(name + ".bias", *from.bias, WeightRole::kVector);
  return LinearAttr::get(builder.getContext(), matrix, bias);
}

NormAttr ModelBuilder::norm(const Twine &name, const NormDescription &from) {
  FlatSymbolRefAttr scale = weight(name, from.weight, WeightRole::kVector), bias;
  if (from.bias)
    bias = weight(name + ".bias", *from.bias, WeightRole::kVector);
  ir::NormKind kind = from.kind == moec::NormKind::kRms ? ir::NormKind::kRms : ir::NormKind::kLayer;
  return NormAttr::get(builder.getContext(), kind, f32(from.epsilon), scale, bias);
}

GluAttr ModelBuilder::glu(const Twine &name, const GluDescription &network) {
  LinearAttr gate = linear(name + ".gate", network.gate), up = linear(name + ".up", network.up),
             down = linear(name + ".down", network.down);
  const moert::GluActivation &activation = network.activation;
  return GluAttr::get(builder.getContext(), static_cast<ir::Activation>(activation.kind), gate, up,
                      down, numberOf(activation, activation.alpha),
                      numberOf(activation, activation.limit));
}

ExpertMatrixAttr ModelBuilder::expertMatrix(Location loc, ExpertPart part,
                                            const MoeDescription &moe,
                                            LinearDescription GluDescription::*matrix) {
  SmallVector<SourceAttr> sources;
  for (const GluDescription &expert : moe.experts) {
    if ((expert.*matrix).bias) {
      emitError(loc) << "the experts' " << stringifyExpertPart(part)
                     << " has a bias, expected experts without biases";
      hasFailed = true;
    }
    sources.push_back(sourceOf(loc, (expert.*matrix).weight, SourceOf::kExpert));
    if (hasFailed)
      return {};
  }
  auto attribute =
      ExpertMatrixAttr::getChecked([&] { return emitError(loc); }, builder.getContext(), part,
                                   ArrayRef<SourceAttr>(compact(sources)));
  hasFailed |= !attribute;
  return attribute;
}

void ModelBuilder::declareMoe(LayerSymbols &symbols, size_t layer, const MoeDescription &moe) {
  std::string prefix = ("layer" + Twine(layer)).str();
  symbols.router = linear(prefix + ".router", moe.router.linear, WeightRole::kRouter);
  if (moe.router.choiceBias)
    symbols.choiceBias =
        weight(prefix + ".router.choice_bias", *moe.router.choiceBias, WeightRole::kVector);
  if (moe.router.weightFactors)
    symbols.weightFactors =
        weight(prefix + ".router.weight_factors", *moe.router.weightFactors, WeightRole::kVector);
  symbols.routerNorm = norm(prefix + ".router.norm", moe.router.inputNorm);
  symbols.expertsNorm = norm(prefix + ".experts_norm", moe.inputNorm);
  symbols.expertsOutputNorm = norm(prefix + ".experts_output_norm", moe.outputNorm);
  std::string name = prefix + ".experts";
  Location loc = named(name);
  ExpertMatrixAttr gate = expertMatrix(loc, ExpertPart::kGate, moe, &GluDescription::gate),
                   up = expertMatrix(loc, ExpertPart::kUp, moe, &GluDescription::up),
                   down = expertMatrix(loc, ExpertPart::kDown, moe, &GluDescription::down);
  if (hasFailed)
    return;
  const moert::GluActivation &activation = moe.experts.front().activation;
  MoeLayerOp::create(builder, loc, name, static_cast<uint32_t>(layer),
                     static_cast<ir::Activation>(activation.kind),
                     numberOf(activation, activation.alpha), numberOf(activation, activation.limit),
                     static_cast<uint32_t>(moe.experts.size()),
                     builder.getArrayAttr({gate, up, down}), /*bits=*/DenseI32ArrayAttr(),
                     /*downBits=*/DenseI32ArrayAttr(), /*slices=*/ArrayAttr(),
                     /*downSlices=*/ArrayAttr(), moe.scalesInputs);
  const auto bias = [&](const char *matrix, const std::optional<WeightSource> &source) {
    return source ? weight(name + matrix, *source, WeightRole::kVector) : FlatSymbolRefAttr();
  };
  symbols.gateBias = bias(".gate.bias", moe.gateBias);
  symbols.upBias = bias(".up.bias", moe.upBias);
  symbols.downBias = bias(".down.bias", moe.downBias);
  symbols.moeLayer = FlatSymbolRefAttr::get(builder.getContext(), name);
  if (!moe.shared)
    return;
  symbols.sharedNorm = norm(prefix + ".shared_norm", moe.shared->inputNorm);
  symbols.sharedOutputNorm = norm(prefix + ".shared_output_norm", moe.shared->outputNorm);
  symbols.shared = glu(prefix + ".shared", moe.shared->network);
  if (moe.shared->gate)
    symbols.sharedGate = linear(prefix + ".shared_gate", *moe.shared->gate, WeightRole::kRouter);
}

void ModelBuilder::declareAttention(LayerSymbols &symbols, const Twine &layer,
                                    const AttentionDescription &attention) {
  std::string prefix = layer.str();
  symbols.query = linear(prefix + ".query", attention.query);
  symbols.key = linear(prefix + ".key", attention.key);
  if (!attention.valuesAreKeys)
    symbols.value = linear(prefix + ".value", attention.value);
  symbols.output = linear(prefix + ".output", attention.output);
  symbols.queryNorm = norm(prefix + ".query_norm", attention.queryNorm);
  symbols.keyNorm = norm(prefix + ".key_norm", attention.keyNorm);
  if (attention.gate)
    symbols.attentionGate = linear(prefix + ".attention_gate", *attention.gate);
  if (attention.rope)
    symbols.rope = ropes[*attention.rope];
  if (attention.sinks)
    symbols.sinks = weight(prefix + ".sinks", *attention.sinks, WeightRole::kVector);
  symbols.kvSlot =
      kvSlot(prefix + ".kv", attention.kvHeads, attention.headDim, attention.valueHeadDim);
}

void ModelBuilder::declareLatentAttention(LayerSymbols &symbols, const Twine &layer,
                                          const LatentAttentionDescription &attention) {
  std::string prefix = layer.str();
  if (attention.queryDown)
    symbols.queryDown = linear(prefix + ".query_down", *attention.queryDown);
  symbols.queryNorm = norm(prefix + ".query_norm", attention.queryNorm);
  symbols.query = linear(prefix + ".query", attention.query);
  symbols.key = linear(prefix + ".key", attention.key);
  symbols.value = linear(prefix + ".latent", attention.latent);
  symbols.latentNorm = norm(prefix + ".latent_norm", attention.latentNorm);
  symbols.keyUp = weight(prefix + ".key_up", attention.keyUp, WeightRole::kHeads);
  symbols.valueUp = weight(prefix + ".value_up", attention.valueUp, WeightRole::kHeads);
  symbols.output = linear(prefix + ".output", attention.output);
  if (attention.rope)
    symbols.rope = ropes[*attention.rope];
  symbols.kvSlot =
      kvSlot(prefix + ".kv", 1, attention.key.weight.rows + attention.latent.weight.rows, 0);
}

FlatSymbolRefAttr ModelBuilder::kvSlot(const Twine &name, uint32_t heads, uint32_t keyDim,
                                       uint32_t valueDim) {
  std::string slot = name.str();
  KvSlotOp::create(builder, named(slot), slot, heads, keyDim, valueDim, KvKindAttr());
  return FlatSymbolRefAttr::get(builder.getContext(), slot);
}

LayerSymbols ModelBuilder::declareLayer(size_t number) {
  const LayerDescription &layer = model.layers[number];
  std::string prefix = ("layer" + Twine(number)).str();
  LayerSymbols symbols;
  symbols.attentionNorm = norm(prefix + ".attention_norm", layer.attentionNorm);
  widthClass = "attention";
  if (layer.latentAttention)
    declareLatentAttention(symbols, prefix, *layer.latentAttention);
  else if (layer.deltaNet)
    declareDeltaNet(symbols.state, prefix, *layer.deltaNet);
  else if (layer.shortConvolution)
    declareShortConvolution(symbols.state, prefix, *layer.shortConvolution);
  else
    declareAttention(symbols, prefix, layer.attention);
  symbols.attentionOutputNorm = norm(prefix + ".attention_output_norm", layer.attentionOutputNorm);
  symbols.networkNorm = norm(prefix + ".network_norm", layer.networkNorm);
  symbols.networkOutputNorm = norm(prefix + ".network_output_norm", layer.networkOutputNorm);
  widthClass = "dense networks";
  if (layer.dense)
    symbols.dense = glu(prefix + ".dense", *layer.dense);
  widthClass = "shared experts";
  if (layer.moe)
    declareMoe(symbols, number, *layer.moe);
  if (layer.outputScale)
    symbols.outputScale = weight(prefix + ".output_scale", *layer.outputScale, WeightRole::kVector);
  return symbols;
}

void ModelBuilder::declareSymbols() {
  for (auto [i, rope] : llvm::enumerate(model.ropes)) {
    std::string name = ("rope" + Twine(i)).str();
    auto style =
        rope.style == moec::RopeStyle::kHalf ? ir::RopeStyle::kHalf : ir::RopeStyle::kInterleaved;
    auto op = RopeOp::create(builder, named(name), name, style, llvm::APFloat(rope.attentionFactor),
                             builder.getF32ArrayAttr(rope.inverseFrequencies), IntegerAttr(),
                             FloatAttr(), ArrayAttr());
    if (rope.originalPositions != 0) {
      op.setOriginalPositions(rope.originalPositions);
      op.setLongAttentionFactorAttr(f32(rope.longAttentionFactor));
      op.setLongInverseFrequenciesAttr(builder.getF32ArrayAttr(rope.longInverseFrequencies));
    }
    ropes.push_back(FlatSymbolRefAttr::get(builder.getContext(), name));
  }
  embedding = weight("embedding", model.embedding, WeightRole::kMatrix);
  for (size_t i = 0; i < model.layers.size() && !hasFailed; ++i)
    layers.push_back(declareLayer(i));
  widthClass = {};
  finalNorm = norm("final_norm", model.finalNorm);
  if (!model.tiedHead) {
    head = linear("head", model.head);
    return;
  }
  FlatSymbolRefAttr bias;
  if (model.head.bias)
    bias = weight("head.bias", *model.head.bias, WeightRole::kVector);
  head = LinearAttr::get(builder.getContext(), embedding, bias);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static ir::RouterScoring scoringOf(moec::RouterScoring scoring) {
  switch (scoring) {
  case moec::RouterScoring::kSoftmaxThenTopK:
    return ir::RouterScoring::kSoftmaxThenTopK;
  case moec::RouterScoring::kSigmoid:
    return ir::RouterScoring::kSigmoid;
  case moec::RouterScoring::kSparsemixer:
    return ir::RouterScoring::kSparsemixer;
  case moec::RouterScoring::kTopKThenSigmoid:
    return ir::RouterScoring::kTopKThenSigmoid;
  }
  llvm_unreachable("an enumerator without a case");
}

Value ModelBuilder::normalized(Location loc, Value row, NormAttr by) {
  return by ? NormOp::create(builder, loc, row.getType(), row, by).getResult() : row;
}

Value ModelBuilder::scaled(Location loc, Value row, float factor, FlatSymbolRefAttr weight) {
  if (factor == 1 && !weight)
    return row;
  return ScaleOp::create(builder, loc, row.getType(), row, f32(factor), weight);
}

Value ModelBuilder::buildMoe(Location loc, Value input, const MoeDescription &moe,
                             const LayerSymbols &symbols) {
  Type ids = rows(builder.getI32Type(), moe.router.topK),
       weights = rows(builder.getF32Type(), moe.router.topK);
  RouterGroupsAttr groups;
  if (moe.router.keptGroups < moe.router.groups)
    groups = RouterGroupsAttr::get(builder.getContext(), moe.router.groups, moe.router.keptGroups,
                                   static_cast<ir::GroupScore>(moe.router.groupScore));
  // The experts' input comes before the route, where calibration takes it.
  Value expertsInput = normalized(loc, input, symbols.expertsNorm);
  Value routed = scaled(loc, normalized(loc, input, symbols.routerNorm), moe.router.inputScale, {});
  auto route = RouteOp::create(
      builder, loc, ids, weights, routed, symbols.router, symbols.moeLayer,
      RouterScoringAttr::get(builder.getContext(), scoringOf(moe.router.scoring)),
      builder.getBoolAttr(moe.router.renormalize), f32(moe.router.weightScale), symbols.choiceBias,
      groups, symbols.weightFactors,
      moe.router.scoring == moec::RouterScoring::kSparsemixer ? f32(moe.router.tolerance)
                                                              : FloatAttr());
  // Before the routed experts, so that it is computed while they are read.
  Value shared;
  Type type = input.getType();
  if (moe.shared) {
    shared = normalized(loc, input, symbols.sharedNorm);
    shared = SharedExpertOp::create(builder, loc, type, shared, symbols.shared, symbols.sharedGate);
    shared = normalized(loc, shared, symbols.sharedOutputNorm);
  }
  Value result =
      ExpertsOp::create(builder, loc, type, expertsInput, route.getExperts(), route.getWeights(),
                        symbols.moeLayer, symbols.gateBias, symbols.upBias, symbols.downBias);
  result = normalized(loc, result, symbols.expertsOutputNorm);
  if (!shared)
    return result;
  return AddOp::create(builder, loc, result.getType(), result, shared, f32(1));
}

Value ModelBuilder::buildAttention(Location loc, Value normed, const LayerDescription &layer,
                                   const LayerSymbols &symbols) {
  const auto count = [&](uint32_t number) {
    return builder.getI32IntegerAttr(static_cast<int32_t>(number));
  };
  if (const auto &latent = layer.latentAttention)
    return LatentAttentionOp::create(builder, loc, normed.getType(), normed, symbols.query,
                                     symbols.key, symbols.value, symbols.latentNorm, symbols.keyUp,
                                     symbols.valueUp, symbols.output, symbols.kvSlot,
                                     count(latent->heads), f32(latent->scale), symbols.rope,
                                     symbols.queryDown, symbols.queryNorm);
  if (layer.deltaNet)
    return buildDeltaNet(loc, normed, *layer.deltaNet, symbols.state);
  if (layer.shortConvolution)
    return buildShortConvolution(loc, normed, symbols.state);
  const AttentionDescription &attention = layer.attention;
  const auto flag = [&](bool isSet) { return isSet ? builder.getUnitAttr() : UnitAttr(); };
  const std::optional<PositionScale> &queryScale = attention.queryScale;
  return AttentionOp::create(
      builder, loc, normed.getType(), normed, symbols.query, symbols.key, symbols.value,
      symbols.output, symbols.kvSlot, count(attention.heads), f32(attention.scale),
      attention.window ? count(attention.window) : IntegerAttr(), symbols.rope, symbols.queryNorm,
      symbols.keyNorm, attention.clip ? f32(*attention.clip) : FloatAttr(),
      flag(attention.normsAfterRope), symbols.sinks, symbols.attentionGate,
      attention.valueNorm ? f32(*attention.valueNorm) : FloatAttr(), flag(attention.chunked),
      attention.plainNormEpsilon ? f32(*attention.plainNormEpsilon) : FloatAttr(),
      queryScale ? f32(queryScale->scale) : FloatAttr(),
      queryScale ? count(queryScale->period) : IntegerAttr());
}

Value ModelBuilder::buildLayer(Value hidden, size_t number) {
  const LayerDescription &layer = model.layers[number];
  const LayerSymbols &symbols = layers[number];
  Type type = hidden.getType();
  FloatAttr residual = f32(model.residualScale);

  Location loc = named("layer" + Twine(number) + ".attention");
  Value normed = normalized(loc, hidden, symbols.attentionNorm);
  Value attended = buildAttention(loc, normed, layer, symbols);
  attended = normalized(loc, attended, symbols.attentionOutputNorm);
  hidden = AddOp::create(builder, loc, type, hidden, attended, residual);

  loc = named("layer" + Twine(number) + ".network");
  normed = normalized(loc, hidden, symbols.networkNorm);
  Value network = layer.moe
                      ? buildMoe(loc, normed, *layer.moe, symbols)
                      : DenseOp::create(builder, loc, type, normed, symbols.dense).getResult();
  network = normalized(loc, network, symbols.networkOutputNorm);
  hidden = AddOp::create(builder, loc, type, hidden, network, residual);
  return scaled(loc, hidden, 1, symbols.outputScale);
}

void ModelBuilder::buildFunction(StringRef name) {
  OpBuilder::InsertionGuard guard(builder);
  Location loc = named(name);
  Type ids = RankedTensorType::get({ShapedType::kDynamic}, builder.getI32Type());
  Type hiddenType = rows(builder.getF32Type(), model.hiddenSize),
       logitsType = rows(builder.getF32Type(), model.vocabularySize);
  auto function =
      func::FuncOp::create(builder, loc, name, builder.getFunctionType({ids}, {logitsType}));
  builder.setInsertionPointToStart(function.addEntryBlock());
  Value hidden = EmbedOp::create(builder, named("embedding"), hiddenType, function.getArgument(0),
                                 embedding, f32(model.embeddingScale));
  for (size_t i = 0; i < model.layers.size(); ++i) {
    Operation *before = &builder.getBlock()->back();
    hidden = buildLayer(hidden, i);
    for (Operation *op = before->getNextNode(); op; op = op->getNextNode())
      op->setAttr(kLayerAttr, builder.getI32IntegerAttr(static_cast<int32_t>(i)));
  }
  hidden = NormOp::create(builder, named("final_norm"), hiddenType, hidden, finalNorm);
  Value logits =
      HeadOp::create(builder, named("head"), logitsType, hidden, head, f32(model.logitsScale),
                     model.logitsSoftCap ? f32(*model.logitsSoftCap) : FloatAttr());
  func::ReturnOp::create(builder, loc, logits);
}

OwningOpRef<ModuleOp> ModelBuilder::build(StringRef checkpointDirectory) {
  MLIRContext *context = builder.getContext();
  auto attribute = ModelAttr::getChecked(
      [&] { return emitError(named(checkpointDirectory)); }, context, StringRef(model.modelType),
      model.vocabularySize, model.hiddenSize, static_cast<uint32_t>(model.layers.size()),
      model.maxPositions, DenseI32ArrayAttr::get(context, model.eosTokens), checkpointDirectory,
      model.bosToken ? *model.bosToken : kAbsent);
  if (!attribute)
    return nullptr;
  (*module)->setAttr(kModelAttr, attribute);
  declareSymbols();
  if (hasFailed)
    return nullptr;
  buildFunction("decode");
  buildFunction("prefill");
  if (failed(verify(*module)))
    return nullptr;
  return std::move(module);
}

OwningOpRef<ModuleOp> buildModel(MLIRContext *context, const ModelDescription &model,
                                 StringRef checkpointDirectory, StoredTypeOf storedTypeOf) {
  context->loadDialect<MoeDialect, func::FuncDialect>();
  return ModelBuilder(context, model, storedTypeOf).build(checkpointDirectory);
}

} // namespace moec
