// Composes a model's programs of instructions: the builders of attention, networks, experts and
// recurrences, which every family is described with. ModelDescription.h defines each.
#include "compiler/ir/ModelBuilder.h"

#include <cmath>

namespace moec {

using llvm::APFloat;

/// Below the squared length of any input but 0, which is then divided by 1e-12.
constexpr float kLeastSquare = 1e-24f;

//===----------------------------------------------------------------------===//
// Instructions with the names of their weights
//===----------------------------------------------------------------------===//

Value ModelBuilder::product(const std::string &name, const LinearDescription &of, Value input,
                            ProductRole role) {
  return LinearOp::create(builder, where, row(of.weight.rows), input, name,
                          symbol(name + ".bias", of.bias), role);
}

Value ModelBuilder::normedRuns(const std::string &name, const NormDescription &by, Value input,
                               uint32_t segment) {
  const auto kind = by.kind == moec::NormKind::kRms ? ir::NormKind::kRms : ir::NormKind::kLayer;
  return NormOp::create(builder, where, input.getType(), input, symbol(name),
                        symbol(name + ".bias", by.bias), kind, APFloat(by.epsilon), segment);
}

/// One norm over the whole row; without `by` the row itself.
Value ModelBuilder::normed(const std::string &name, const std::optional<NormDescription> &by,
                           Value input) {
  return by ? normedRuns(name, *by, input, widthOf(input)) : input;
}

Value ModelBuilder::plainNormed(Value input, float epsilon, uint32_t segment) {
  return NormOp::create(builder, where, input.getType(), input, FlatSymbolRefAttr(),
                        FlatSymbolRefAttr(), ir::NormKind::kRms, APFloat(epsilon), segment);
}

Value ModelBuilder::convolved(const std::string &name, Value input, bool silu) {
  return ConvolveOp::create(builder, where, input.getType(), input, name + "_taps", name + "_tail",
                            silu);
}

Value ModelBuilder::applied(ir::RowFunction function, Value input, const std::string &factor,
                            const std::string &bias) {
  return ApplyOp::create(builder, where, input.getType(), input, function,
                         factor.empty() ? FlatSymbolRefAttr() : symbol(factor),
                         bias.empty() ? FlatSymbolRefAttr() : symbol(bias));
}

/// silu(convolution + bias).
Value ModelBuilder::activeConvolved(const std::string &name, const ConvolvedDescription &of,
                                    Value input) {
  input = convolved(name, input, !of.tapsBias);
  return of.tapsBias ? applied(ir::RowFunction::kSilu, input, "", name + "_taps.bias") : input;
}

Value ModelBuilder::rotated(const std::optional<uint32_t> &rope, Value input, uint32_t heads,
                            uint32_t headDim) {
  if (!rope)
    return input;
  return RopeOp::create(builder, where, input.getType(), input, heads, headDim,
                        ("rope" + Twine(*rope)).str());
}

Value ModelBuilder::rotatedPart(const std::optional<uint32_t> &rope, Value input, uint32_t heads,
                                uint32_t headDim, uint32_t first, uint32_t poolTokens,
                                bool inverse) {
  if (!rope || (first == 0 && poolTokens == 1 && !inverse))
    return rotated(rope, input, heads, headDim);
  return RopePartOp::create(builder, where, input.getType(), input, heads, headDim,
                            ("rope" + Twine(*rope)).str(), first, poolTokens, inverse);
}

Value ModelBuilder::gated(Value input, Value gate, ir::GateKind kind) {
  return GateOp::create(builder, where, input.getType(), input, gate, kind);
}

Value ModelBuilder::scaledByPosition(const std::optional<PositionScale> &by, Value input) {
  if (!by)
    return input;
  if (by->ahead == 0)
    return ScaleByPeriodOp::create(builder, where, input.getType(), input, APFloat(by->scale),
                                   by->period);
  return ScaleByPositionOp::create(builder, where, input.getType(), input, APFloat(by->scale),
                                   by->period);
}

Value ModelBuilder::activated(const moert::GluActivation &by, Value gate, Value up) {
  return ActivateOp::create(builder, where, gate.getType(), gate, up,
                            static_cast<ir::Activation>(by.kind), APFloat(by.alpha),
                            APFloat(by.limit));
}

Value ModelBuilder::sum(Value a, Value b, float scale) {
  return AddOp::create(builder, where, a.getType(), a, b, APFloat(scale));
}

//===----------------------------------------------------------------------===//
// Networks
//===----------------------------------------------------------------------===//

Value ModelBuilder::build(const std::string &name, const GluDescription &network, Value input) {
  if (const auto function = moert::functionOf(network.activation.kind))
    return product(name + ".down", network.down,
                   applied(static_cast<ir::RowFunction>(*function),
                           product(name + ".up", network.up, input), "", ""));
  Value gate = product(name + ".gate", network.gate, input);
  Value up = product(name + ".up", network.up, input);
  return product(name + ".down", network.down, activated(network.activation, gate, up));
}

Value ModelBuilder::build(const std::string &layer, const SharedExpertDescription &shared,
                          Value input) {
  input = normed(layer + ".shared_norm", shared.inputNorm, input);
  Value result = build(layer + ".shared", shared.network, input);
  if (shared.gate)
    result = GateRowsOp::create(builder, where, result.getType(), result,
                                product(layer + ".shared_gate", *shared.gate, input));
  return normed(layer + ".shared_output_norm", shared.outputNorm, result);
}

Value ModelBuilder::build(const std::string &layer, const MoeDescription &moe, Value input) {
  const RouterDescription &router = moe.router;
  const std::string experts = layer + ".experts";
  // The experts' input comes before the route, where calibration takes it.
  Value expertsInput = normed(layer + ".experts_norm", moe.inputNorm, input);
  Value routed = normed(layer + ".router.norm", router.inputNorm, input);
  routed = ScaleOp::create(builder, where, routed.getType(), routed, FlatSymbolRefAttr(),
                           APFloat(router.inputScale));
  if (router.projection) {
    routed = product(layer + ".router.projection", *router.projection, routed);
    routed = UnitNormOp::create(builder, where, routed.getType(), routed, APFloat(kLeastSquare),
                                widthOf(routed));
  }
  Value scores = product(layer + ".router", router.linear, routed, ProductRole::kRouter);
  if (router.scoreCap != 0) {
    scores = scaled(scores, 1 / router.scoreCap);
    scores = scaled(applied(ir::RowFunction::kTanh, scores), router.scoreCap);
  }
  if (router.expertsOfTokens)
    scores = MaskExpertsOp::create(builder, where, scores.getType(), scores,
                                   layer + ".router.experts_of_tokens");
  const bool hasGroups = router.keptGroups < router.groups;
  auto route = RouteOp::create(
      builder, where,
      RowType::get(builder.getContext(), BufferKind::kI32, router.topK, 0, rowsPerToken),
      row(router.topK), scores, experts, static_cast<ir::RouterScoring>(router.scoring),
      router.renormalize, APFloat(router.weightScale), /*beginsReads=*/false,
      symbol(layer + ".router.choice_bias", router.choiceBias), hasGroups ? router.groups : 1,
      hasGroups ? router.keptGroups : 1,
      hasGroups ? static_cast<ir::GroupScore>(router.groupScore) : ir::GroupScore::kLargest,
      symbol(layer + ".router.weight_factors", router.weightFactors),
      APFloat(router.scoring == moec::RouterScoring::kSparsemixer ? router.tolerance : 0));
  Value chosen = route.getExperts(), weights = route.getWeights(), passed;
  if (moe.capacity) {
    const moert::CapacityRule &rule = moe.capacity->rule;
    auto limited = CapacityOp::create(
        builder, where, chosen.getType(), weights.getType(), row(1), chosen, weights, experts,
        static_cast<ir::CapacityKind>(rule.kind), APFloat(rule.capacity), rule.byPriority,
        rule.normalizesBefore, rule.normalizesAfter, APFloat(rule.weightScale));
    chosen = limited.getExpertsUpdated(), weights = limited.getWeightsUpdated();
    if (moe.capacity->passes)
      passed = ScaleInputOp::create(builder, where, row(1), expertsInput.getType(), expertsInput,
                                    limited.getPassed())
                   .getDst();
  }
  // Before the routed experts, so that they are computed while those are read.
  SmallVector<Value> others;
  if (passed)
    others.push_back(passed);
  if (moe.shared)
    others.push_back(build(layer, *moe.shared, input));
  if (moe.bypass)
    others.push_back(
        applied(ir::RowFunction::kTanh, product(layer + ".bypass", *moe.bypass, input)));
  if (moe.scalesInputs) {
    auto scaled = ScaleInputOp::create(builder, where, weights.getType(), expertsInput.getType(),
                                       expertsInput, weights);
    expertsInput = scaled.getDst(), weights = scaled.getWeightsUpdated();
  }
  Value result = ExpertsOp::create(builder, where, expertsInput.getType(), expertsInput, chosen,
                                   weights, experts, symbol(experts + ".gate.bias", moe.gateBias),
                                   symbol(experts + ".up.bias", moe.upBias),
                                   symbol(experts + ".down.bias", moe.downBias));
  result = normed(layer + ".experts_output_norm", moe.outputNorm, result);
  for (Value other : others)
    result = sum(result, other, 1);
  return result;
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

Value ModelBuilder::build(const PatchesDescription &patches) {
  const uint32_t grid = patches.side / patches.patch;
  rowsPerToken = grid * grid;
  Value pixels = PatchesOp::create(builder, where, row(patches.linear.weight.cols),
                                   patches.channels, patches.side, patches.patch);
  return normed("patches_norm", patches.norm, product("patches", patches.linear, pixels));
}

Value ModelBuilder::build(const std::string &name, const MergeDescription &merge, Value input) {
  rowsPerToken /= 4;
  Value rows =
      MergePatchesOp::create(builder, where, row(uint64_t(widthOf(input)) * 4), input, merge.side);
  return product(name, merge.linear, normed(name + "_norm", merge.norm, rows));
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

std::pair<Value, Value> ModelBuilder::beginBranch(const std::string &name,
                                                  const std::optional<StreamMixDescription> &mix,
                                                  const std::optional<StreamGateDescription> &gate,
                                                  Value hidden) {
  if (!mix && !gate)
    return {hidden, Value()};
  const StreamsDescription &streams = *model.streams;
  if (mix) {
    Value weights = product(name, {mix->products, std::nullopt},
                            plainNormed(hidden, streams.normEpsilon, widthOf(hidden)));
    weights = StreamWeightsOp::create(builder, where, weights.getType(), weights, name + ".scale",
                                      name + ".base", streams.count, streams.iterations,
                                      APFloat(streams.epsilon));
    return {MergeStreamsOp::create(builder, where, row(model.hiddenSize), hidden, weights),
            weights};
  }
  const float part = 1 / static_cast<float>(streams.count);
  Value rows = normedStreams(name + ".norm", gate->norm, hidden);
  Value factors = scaled(product(name + ".down", gate->down, rows), part);
  factors = applied(ir::RowFunction::kSilu, factors, "", "");
  factors = product(name + ".up", gate->up, factors);
  Value weights;
  if (gate->inject)
    weights = scaled(product(name + ".inject", *gate->inject, rows), part);
  rows = gated(rows, factors, ir::GateKind::kSigmoid);
  return {MeanStreamsOp::create(builder, where, row(model.hiddenSize), rows), weights};
}

Value ModelBuilder::endBranch(Value hidden, Value result, Value weights, bool areGates) {
  if (!weights)
    return sum(hidden, result, model.residualScale);
  if (!areGates)
    return UpdateStreamsOp::create(builder, where, hidden.getType(), hidden, result, weights);
  result = GateRowsOp::create(builder, where, hidden.getType(), repeated(result), weights);
  return sum(hidden, result, 2);
}

Value ModelBuilder::addNgrams(const std::string &name, const NgramDescription &ngrams,
                              Value hidden) {
  const uint32_t width = ngrams.key.weight.cols;
  Value rows = EmbedNgramsOp::create(builder, where, row(width), name + ".table", name + ".tokens",
                                     ngrams.tokens, ngrams.heads, ngrams.leastRows, ngrams.number,
                                     ngrams.seed, ngrams.endToken);
  Value key = product(name + ".key", ngrams.key, rows);
  Value value = product(name + ".value", ngrams.value, rows);
  key = normedStreams(name + ".key_norm", ngrams.keyNorm, key);
  Value query = normedStreams(name + ".query_norm", ngrams.queryNorm, hidden);
  const auto factor = static_cast<float>(1 / std::sqrt(static_cast<double>(model.hiddenSize)));
  Value weights =
      DotStreamsOp::create(builder, where, row(model.streams->count), key, query, APFloat(factor));
  weights = applied(ir::RowFunction::kSignedRoot, weights, "", "");
  value = GateRowsOp::create(builder, where, hidden.getType(), repeated(value), weights);
  hidden = sum(hidden, value, 1);
  value = normedStreams(name + ".taper_norm", ngrams.taperNorm, value);
  return sum(hidden, convolved(name + ".taper", value, true), 1);
}

Value ModelBuilder::buildLayer(const std::string &name, const LayerDescription &layer,
                               Value hidden) {
  if (layer.ngrams) {
    where = named(name + ".ngrams");
    hidden = addNgrams(name + ".ngrams", *layer.ngrams, hidden);
  }
  if (layer.hasMixer) {
    where = named(name + ".attention");
    auto [result, weights] = beginBranch(name + ".attention_streams", layer.attentionStreams,
                                         layer.attentionGate, hidden);
    result = normed(name + ".attention_norm", layer.attentionNorm, result);
    result = buildMixer(name, layer, result);
    result = normed(name + ".attention_output_norm", layer.attentionOutputNorm, result);
    hidden = endBranch(hidden, result, weights, layer.attentionGate.has_value());
  }
  if (layer.cross) {
    where = named(name + ".cross");
    Value result = normed(name + ".cross_norm", layer.crossNorm, hidden);
    hidden = sum(hidden, buildCross(name + ".cross", *layer.cross, result), 1);
  }
  if (layer.moe || layer.dense) {
    where = named(name + ".network");
    auto [result, weights] =
        beginBranch(name + ".network_streams", layer.networkStreams, layer.networkGate, hidden);
    result = normed(name + ".network_norm", layer.networkNorm, result);
    result =
        layer.moe ? build(name, *layer.moe, result) : build(name + ".dense", *layer.dense, result);
    result = normed(name + ".network_output_norm", layer.networkOutputNorm, result);
    hidden = endBranch(hidden, result, weights, layer.networkGate.has_value());
  }
  if (layer.merge)
    return build(name + ".merge", *layer.merge, hidden);
  if (!layer.outputScale)
    return hidden;
  return ScaleOp::create(builder, where, hidden.getType(), hidden, symbol(name + ".output_scale"),
                         APFloat(1.0f));
}

/// The embedding of the tokens and their positions.
Value ModelBuilder::embedded() {
  where = named("embedding");
  if (model.patches)
    return build(*model.patches);
  Value hidden = EmbedOp::create(builder, where, row(model.hiddenSize), "embedding",
                                 APFloat(model.embeddingScale));
  const auto &positions = model.positions;
  if (!positions)
    return hidden;
  if (positions->table)
    return sum(hidden, EmbedPositionOp::create(builder, where, hidden.getType(), "positions"), 1);
  return AddPositionOp::create(builder, where, hidden.getType(), hidden,
                               ("rope" + Twine(positions->rope)).str(), positions->offset);
}

// An encoder ends with the keys and values of its output that the other layers attend to.
void ModelBuilder::buildProgram(StringRef name) {
  OpBuilder::InsertionGuard guard(builder);
  auto program = ProgramOp::create(builder, named(name), name);
  builder.setInsertionPointToStart(&program.block());
  const bool encodes = name == StringRef(moert::programs::kEncode);
  rowsPerToken = 1;
  Value hidden = embedded();
  if (model.streams)
    hidden = repeated(hidden);
  const auto inLayer = [&](size_t number, auto build) {
    Operation *before = &program.block().back();
    build(("layer" + Twine(number)).str(), model.layers[number]);
    for (Operation *op = before->getNextNode(); op; op = op->getNextNode())
      op->setAttr(kLayerAttr, builder.getI32IntegerAttr(static_cast<int32_t>(number)));
  };
  const size_t first = encodes ? 0 : model.encoderLayers,
               end = encodes ? model.encoderLayers : model.layers.size();
  for (size_t i = first; i < end; ++i)
    inLayer(i, [&](const std::string &layer, const LayerDescription &from) {
      hidden = buildLayer(layer, from, hidden);
    });
  const std::string norm = encodes ? "encoder_norm" : "final_norm";
  where = named(norm);
  if (model.streams && (model.streams->head || model.streams->headGate))
    hidden =
        beginBranch("head_streams", model.streams->head, model.streams->headGate, hidden).first;
  else if (model.streams)
    hidden = MeanStreamsOp::create(builder, where, row(model.hiddenSize), hidden);
  if (encodes || model.finalNorm.weight.rows > 0)
    hidden = normed(norm, encodes ? *model.encoderNorm : model.finalNorm, hidden);
  for (size_t i = end; encodes && i < model.layers.size(); ++i)
    inLayer(i, [&](const std::string &layer, const LayerDescription &from) {
      where = named(layer + ".cross");
      storeCross(layer + ".cross", *from.cross, hidden);
    });
  if (encodes)
    return;
  if (model.patches) {
    rowsPerToken = 1;
    hidden = MeanRowsOp::create(builder, where, row(model.hiddenSize), hidden);
  }
  where = named("head");
  if (model.beforeHead)
    hidden = applied(ir::RowFunction::kSilu, product("before_head", *model.beforeHead, hidden));
  HeadOp::create(builder, where, hidden, model.tiedHead ? "embedding" : "head",
                 symbol("head.bias", model.head.bias), APFloat(model.logitsScale),
                 APFloat(model.logitsSoftCap.value_or(0)));
}

} // namespace moec
