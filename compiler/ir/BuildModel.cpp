#include "compiler/ir/BuildModel.h"

#include "compiler/ir/ModelBuilder.h"
#include "compiler/ir/SourceAttrs.h"

#include "mlir/IR/Verifier.h"

namespace moec {

SourceAttr ModelBuilder::sourceOf(Location loc, const WeightSource &source, SourceOf use) {
  moert::Result<StoredType> type = storedTypeOf(source);
  if (!type.isOk()) {
    emitError(loc) << type.status().message();
    hasFailed = true;
    return {};
  }
  // BF16 holds every value of MXFP4 too, F32 those of blocks.
  if (use == SourceOf::kResident && *type == StoredType::kMxfp4)
    type = StoredType::kBf16;
  if (use == SourceOf::kResident && hasBlocks(*type))
    type = StoredType::kF32;
  auto attribute = SourceAttr::getChecked(
      [&] { return emitError(loc); }, builder.getContext(), StringRef(source.tensor), source.rows,
      source.cols, kindOf(*type), source.index ? *source.index : kAbsent, source.firstRow,
      source.rowStep, source.transposed, source.blocks, source.blockStep, source.stackedVectors,
      source.addsOne, source.integers, source.shards);
  hasFailed |= !attribute;
  return attribute;
}

void ModelBuilder::declare(const std::string &name, const WeightSource &from, WeightRole role) {
  Location loc = named(name);
  if (SourceAttr attribute = hasFailed ? SourceAttr() : sourceOf(loc, from, SourceOf::kResident))
    WeightOp::create(builder, loc, name, role, attribute,
                     role == WeightRole::kMatrix && !widthClass.empty()
                         ? builder.getStringAttr(widthClass)
                         : StringAttr(),
                     IntegerAttr(), FormatAttr());
}

void ModelBuilder::declare(const std::string &name, const LinearDescription &from,
                           WeightRole role) {
  declare(name, from.weight, role);
  if (from.bias)
    declare(name + ".bias", *from.bias, WeightRole::kVector);
}

void ModelBuilder::declare(const std::string &name, const NormDescription &from) {
  declare(name, LinearDescription{from.weight, from.bias}, WeightRole::kVector);
}

void ModelBuilder::declare(const std::string &name, const ConvolvedDescription &from) {
  declare(name, from.linear);
  declare(name + "_taps", from.taps, WeightRole::kTaps);
  if (from.tapsBias)
    declare(name + "_taps.bias", *from.tapsBias, WeightRole::kVector);
  declareStateSlot(name + "_tail", from.taps.cols - 1, from.taps.rows);
}

void ModelBuilder::declare(const std::string &name, const GluDescription &network) {
  if (network.hasGate())
    declare(name + ".gate", network.gate);
  declare(name + ".up", network.up);
  declare(name + ".down", network.down);
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

void ModelBuilder::declare(const std::string &layer, const MoeDescription &moe, size_t number) {
  const auto vector = [&](const std::string &name, const std::optional<WeightSource> &from) {
    if (from)
      declare(name, *from, WeightRole::kVector);
  };
  if (moe.router.projection)
    declare(layer + ".router.projection", *moe.router.projection, WeightRole::kRouter);
  declare(layer + ".router", moe.router.linear, WeightRole::kRouter);
  vector(layer + ".router.choice_bias", moe.router.choiceBias);
  vector(layer + ".router.weight_factors", moe.router.weightFactors);
  if (moe.router.expertsOfTokens)
    declare(layer + ".router.experts_of_tokens", *moe.router.expertsOfTokens, WeightRole::kTaps);
  declare(layer + ".router.norm", moe.router.inputNorm);
  declare(layer + ".bypass", moe.bypass);
  declare(layer + ".experts_norm", moe.inputNorm);
  declare(layer + ".experts_output_norm", moe.outputNorm);
  std::string name = layer + ".experts";
  Location loc = named(name);
  SmallVector<Attribute> matrices;
  if (moe.experts.front().hasGate())
    matrices.push_back(expertMatrix(loc, ExpertPart::kGate, moe, &GluDescription::gate));
  matrices.push_back(expertMatrix(loc, ExpertPart::kUp, moe, &GluDescription::up));
  matrices.push_back(expertMatrix(loc, ExpertPart::kDown, moe, &GluDescription::down));
  if (hasFailed)
    return;
  const moert::GluActivation &activation = moe.experts.front().activation;
  MoeLayerOp::create(builder, loc, name, static_cast<uint32_t>(number),
                     static_cast<ir::Activation>(activation.kind),
                     numberOf(activation, activation.alpha), numberOf(activation, activation.limit),
                     static_cast<uint32_t>(moe.experts.size()), builder.getArrayAttr(matrices),
                     /*bits=*/DenseI32ArrayAttr(),
                     /*downBits=*/DenseI32ArrayAttr(), /*slices=*/ArrayAttr(),
                     /*downSlices=*/ArrayAttr(), moe.scalesInputs);
  vector(name + ".gate.bias", moe.gateBias);
  vector(name + ".up.bias", moe.upBias);
  vector(name + ".down.bias", moe.downBias);
  if (!moe.shared)
    return;
  declare(layer + ".shared_norm", moe.shared->inputNorm);
  declare(layer + ".shared_output_norm", moe.shared->outputNorm);
  declare(layer + ".shared", moe.shared->network);
  if (moe.shared->gate)
    declare(layer + ".shared_gate", *moe.shared->gate, WeightRole::kRouter);
}

void ModelBuilder::declareKvSlot(const std::string &name, uint32_t heads, uint32_t keyDim,
                                 uint32_t valueDim) {
  KvSlotOp::create(builder, named(name), name, heads, keyDim, valueDim, KvKindAttr());
}

void ModelBuilder::declareStateSlot(const std::string &name, uint32_t rows, uint32_t width) {
  StateSlotOp::create(builder, named(name), name, rows, width);
}

void ModelBuilder::declare(const std::string &layer, const AttentionDescription &attention) {
  declare(layer + ".query", attention.query);
  declare(layer + ".key", attention.key);
  if (!attention.valuesAreKeys)
    declare(layer + ".value", attention.value);
  declare(layer + ".output", attention.output);
  declare(layer + ".query_norm", attention.queryNorm);
  declare(layer + ".key_norm", attention.keyNorm);
  if (attention.gate && attention.gate->weight.rows == attention.heads) // A few rows.
    declare(layer + ".attention_gate", *attention.gate, WeightRole::kRouter);
  else
    declare(layer + ".attention_gate", attention.gate);
  if (attention.sinks)
    declare(layer + ".sinks", *attention.sinks, WeightRole::kVector);
  if (const std::string slot = slotOf(layer, attention); !module->lookupSymbol(slot))
    declareKvSlot(slot, attention.kvHeads, attention.headDim, attention.valueHeadDim);
  declare(layer + ".indexer", attention.indexer);
}

std::string ModelBuilder::slotOf(const std::string &layer,
                                 const AttentionDescription &attention) const {
  const bool isEncoders =
      model.encoderLayers > 0 && attention.range == moert::AttendedRange::kInputAndEarlier;
  return isEncoders ? "encoder.kv" : layer + ".kv";
}

void ModelBuilder::declare(const std::string &layer, const LatentAttentionDescription &attention) {
  declare(layer + ".query_down", attention.queryDown);
  declare(layer + ".query_norm", attention.queryNorm);
  declare(layer + ".query", attention.query);
  if (attention.key.weight.rows > 0)
    declare(layer + ".key", attention.key);
  declare(layer + ".latent", attention.latent);
  declare(layer + ".latent_norm", attention.latentNorm);
  declare(layer + ".key_up", attention.keyUp, WeightRole::kHeads);
  declare(layer + ".value_up", attention.valueUp, WeightRole::kHeads);
  if (attention.gate) // A few rows.
    declare(layer + ".gate", *attention.gate, WeightRole::kRouter);
  declare(layer + ".output", attention.output);
  declareKvSlot(layer + ".kv", 1, attention.key.weight.rows + attention.latent.weight.rows, 0);
  if (attention.indexer)
    declare(layer + ".indexer", *attention.indexer);
}

void ModelBuilder::declare(const std::string &layer,
                           const CompressedAttentionDescription &attention) {
  declare(layer + ".query_down", attention.queryDown);
  declare(layer + ".query_norm", attention.queryNorm);
  declare(layer + ".query", attention.query);
  declare(layer + ".key", attention.key);
  declare(layer + ".key_norm", attention.keyNorm);
  declare(layer + ".sinks", attention.sinks, WeightRole::kVector);
  declare(layer + ".output_down", attention.outputDown, WeightRole::kHeads);
  declare(layer + ".output", attention.output);
  if (attention.pool) {
    declare(layer + ".pooled", attention.pooled);
    declare(layer + ".pool", *attention.pool, attention.headDim);
  }
  if (attention.indexer)
    declare(layer + ".indexer", *attention.indexer);
  declareKvSlot(layer + ".kv", attention.pool ? 2 : 1, attention.headDim, 0);
}

void ModelBuilder::declare(const std::string &name, const IndexerDescription &indexer) {
  declare(name + ".query", indexer.query);
  declare(name + ".key", indexer.key);
  declare(name + ".query_norm", indexer.queryNorm);
  declare(name + ".key_norm", indexer.keyNorm);
  if (indexer.weights)
    declare(name + ".weights", *indexer.weights, WeightRole::kRouter);
  const uint32_t width = indexer.query.weight.rows / indexer.heads;
  if (indexer.pool)
    declare(name + ".pool", *indexer.pool, width);
  declareKvSlot(name + ".keys", 1, width, 0);
}

void ModelBuilder::declare(const std::string &name, const PoolDescription &pool, uint32_t width) {
  declare(name + ".gate", pool.gate);
  if (pool.gate)
    declare(name + ".bias", pool.bias, WeightRole::kVector);
  declare(name + ".norm", pool.norm);
  declareStateSlot(name + ".sums", pool.overlapping ? 6 : 3, width);
}

void ModelBuilder::declare(const std::string &name, const StreamGateDescription &gate) {
  declare(name + ".norm", gate.norm);
  declare(name + ".down", gate.down);
  declare(name + ".up", gate.up);
  if (gate.inject) // A few rows.
    declare(name + ".inject", *gate.inject, WeightRole::kRouter);
}

void ModelBuilder::declare(const std::string &name, const NgramDescription &ngrams) {
  declare(name + ".table", ngrams.table, WeightRole::kHeads);
  declareStateSlot(name + ".tokens", ngrams.tokens - 1, 1);
  declare(name + ".key", ngrams.key);
  declare(name + ".value", ngrams.value);
  declare(name + ".key_norm", ngrams.keyNorm);
  declare(name + ".query_norm", ngrams.queryNorm);
  declare(name + ".taper_norm", ngrams.taperNorm);
  declare(name + ".taper_taps", ngrams.taps, WeightRole::kTaps);
  declareStateSlot(name + ".taper_tail", (ngrams.taps.cols - 1) * ngrams.tokens, ngrams.taps.rows);
}

void ModelBuilder::declare(const std::string &name, const StreamMixDescription &mix) {
  declare(name, mix.products, WeightRole::kRouter);
  declare(name + ".scale", mix.scale, WeightRole::kVector);
  declare(name + ".base", mix.base, WeightRole::kVector);
}

void ModelBuilder::declare(const std::string &layer, const DeltaNetDescription &net) {
  declare(layer + ".query", net.query);
  declare(layer + ".key", net.key);
  declare(layer + ".value", net.value);
  declare(layer + ".gate_down", net.gateDown);
  declare(layer + ".gate", net.gate);
  // A few rows each, and an error in a decay grows with every token.
  if (net.decayDown)
    declare(layer + ".decay_down", *net.decayDown, WeightRole::kRouter);
  const bool isLarge = !net.decayDown && net.decay.weight.rows > net.heads;
  declare(layer + ".decay", net.decay, isLarge ? WeightRole::kMatrix : WeightRole::kRouter);
  declare(layer + ".write", net.write, WeightRole::kRouter);
  declare(layer + ".log_rate", net.logRate, WeightRole::kVector);
  declare(layer + ".decay_bias", net.decayBias, WeightRole::kVector);
  declare(layer + ".output_norm", net.outputNorm);
  declare(layer + ".output", net.output);
  const uint32_t keyDim = net.key.linear.weight.rows / net.keyHeads,
                 valueDim = net.value.linear.weight.rows / net.heads;
  declareStateSlot(layer + ".state", net.heads * keyDim, valueDim);
}

void ModelBuilder::declare(const std::string &layer, const ShortConvolutionDescription &mixer) {
  declare(layer + ".before", mixer.before);
  declare(layer + ".value", ConvolvedDescription{mixer.value, mixer.taps, std::nullopt});
  declare(layer + ".after", mixer.after);
  declare(layer + ".output", mixer.output);
}

void ModelBuilder::declare(const std::string &layer, const StateSpaceDescription &space) {
  declare(layer + ".value", space.value);
  declare(layer + ".key", space.key);
  declare(layer + ".query", space.query);
  declare(layer + ".gate", space.gate);
  // A few rows, and an error in a decay grows with every token.
  declare(layer + ".step", space.step, WeightRole::kRouter);
  declare(layer + ".step_bias", space.stepBias, WeightRole::kVector);
  declare(layer + ".log_rate", space.logRate, WeightRole::kVector);
  declare(layer + ".skip", space.skip, WeightRole::kVector);
  declare(layer + ".output_norm", space.outputNorm);
  declare(layer + ".output", space.output);
  const uint32_t keyDim = space.key.linear.weight.rows / space.keyHeads,
                 valueDim = space.value.linear.weight.rows / space.heads;
  declareStateSlot(layer + ".state", space.heads * keyDim, valueDim);
}

void ModelBuilder::declare(const std::string &layer, const SelectiveScanDescription &scan) {
  declare(layer + ".value", scan.value);
  declare(layer + ".gate", scan.gate);
  // As above; together they are a small part of the layer.
  declare(layer + ".step_down", scan.stepDown, WeightRole::kRouter);
  declare(layer + ".key", scan.key, WeightRole::kRouter);
  declare(layer + ".query", scan.query, WeightRole::kRouter);
  declare(layer + ".step", scan.step, WeightRole::kRouter);
  declare(layer + ".step_norm", scan.stepNorm);
  declare(layer + ".key_norm", scan.keyNorm);
  declare(layer + ".query_norm", scan.queryNorm);
  declare(layer + ".step_bias", scan.stepBias, WeightRole::kVector);
  declare(layer + ".log_rate", scan.logRate, WeightRole::kTaps);
  declare(layer + ".skip", scan.skip, WeightRole::kVector);
  declare(layer + ".output", scan.output);
  declareStateSlot(layer + ".state", scan.logRate.cols, scan.logRate.rows);
}

void ModelBuilder::declare(const std::string &layer, const WindowAttentionDescription &attention) {
  declare(layer + ".query", attention.query);
  declare(layer + ".key", attention.key);
  declare(layer + ".value", attention.value);
  declare(layer + ".position_bias", attention.bias, WeightRole::kVector);
  declare(layer + ".output", attention.output);
}

void ModelBuilder::declare(const std::string &name, const PatchesDescription &patches) {
  declare(name, patches.linear);
  declare(name + "_norm", patches.norm);
}

void ModelBuilder::declare(const std::string &name, const MergeDescription &merge) {
  declare(name + "_norm", merge.norm);
  declare(name, merge.linear);
}

void ModelBuilder::declareMixer(const std::string &name, const LayerDescription &layer) {
  if (layer.latentAttention)
    declare(name, *layer.latentAttention);
  else if (layer.compressedAttention)
    declare(name, *layer.compressedAttention);
  else if (layer.deltaNet)
    declare(name, *layer.deltaNet);
  else if (layer.shortConvolution)
    declare(name, *layer.shortConvolution);
  else if (layer.stateSpace)
    declare(name, *layer.stateSpace);
  else if (layer.selectiveScan)
    declare(name, *layer.selectiveScan);
  else if (layer.windowAttention)
    declare(name, *layer.windowAttention);
  else if (layer.hasMixer)
    declare(name, layer.attention);
}

void ModelBuilder::declareLayer(const std::string &name, const LayerDescription &layer,
                                size_t number) {
  declare(name + ".attention_streams", layer.attentionStreams);
  declare(name + ".network_streams", layer.networkStreams);
  declare(name + ".attention_streams", layer.attentionGate);
  declare(name + ".network_streams", layer.networkGate);
  declare(name + ".ngrams", layer.ngrams);
  declare(name + ".attention_norm", layer.attentionNorm);
  widthClass = "attention";
  declareMixer(name, layer);
  declare(name + ".attention_output_norm", layer.attentionOutputNorm);
  declare(name + ".cross_norm", layer.crossNorm);
  if (layer.cross)
    declare(name + ".cross", *layer.cross);
  declare(name + ".network_norm", layer.networkNorm);
  declare(name + ".network_output_norm", layer.networkOutputNorm);
  widthClass = "dense networks";
  declare(name + ".dense", layer.dense);
  widthClass = "shared experts";
  if (layer.moe)
    declare(name, *layer.moe, number);
  if (layer.outputScale)
    declare(name + ".output_scale", *layer.outputScale, WeightRole::kVector);
  declare(name + ".merge", layer.merge);
}

void ModelBuilder::declareRopes() {
  for (auto [i, rope] : llvm::enumerate(model.ropes)) {
    const std::string name = ("rope" + Twine(i)).str();
    RopeTableOp::create(builder, named(name), name,
                        moert::Rope{static_cast<moert::RopeStyle>(rope.style), rope.attentionFactor,
                                    rope.inverseFrequencies, rope.originalPositions,
                                    rope.longAttentionFactor, rope.longInverseFrequencies});
  }
}

void ModelBuilder::declareSymbols() {
  declareRopes();
  declare("patches", model.patches);
  if (!model.patches)
    declare("embedding", model.embedding, WeightRole::kMatrix);
  if (model.positions && model.positions->table)
    declare("positions", *model.positions->table, WeightRole::kMatrix);
  for (auto [i, bias] : llvm::enumerate(model.positionBiases))
    declare(("position_bias" + Twine(i)).str(), bias.table, WeightRole::kVector);
  for (size_t i = 0; i < model.layers.size() && !hasFailed; ++i)
    declareLayer(("layer" + Twine(i)).str(), model.layers[i], i);
  widthClass = {};
  if (model.streams)
    declare("head_streams", model.streams->head);
  if (model.streams)
    declare("head_streams", model.streams->headGate);
  declare("encoder_norm", model.encoderNorm);
  if (model.finalNorm.weight.rows > 0)
    declare("final_norm", model.finalNorm);
  declare("before_head", model.beforeHead);
  if (!model.tiedHead)
    declare("head", model.head);
  else if (model.head.bias)
    declare("head.bias", *model.head.bias, WeightRole::kVector);
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
  if (model.patches)
    buildProgram(moert::programs::kClassify);
  for (std::string_view program : {moert::programs::kDecode, moert::programs::kPrefill})
    if (!model.patches)
      buildProgram(program);
  if (model.encoderLayers > 0)
    buildProgram(moert::programs::kEncode);
  if (failed(verify(*module)))
    return nullptr;
  return std::move(module);
}

OwningOpRef<ModuleOp> buildModel(MLIRContext *context, const ModelDescription &model,
                                 StringRef checkpointDirectory, StoredTypeOf storedTypeOf) {
  context->loadDialect<MoeDialect>();
  return ModelBuilder(context, model, storedTypeOf).build(checkpointDirectory);
}

} // namespace moec
