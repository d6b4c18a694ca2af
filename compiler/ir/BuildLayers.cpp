// Composes a model's programs of instructions: the builders of attention, networks, experts and
// recurrences, which every family is described with. ModelDescription.h defines each.
#include "compiler/ir/ModelBuilder.h"

#include <cmath>

namespace moec {

using llvm::APFloat;

/// Below the squared length of any input but 0, which is then divided by 1e-12.
constexpr float kLeastSquare = 1e-24f;

static uint32_t widthOf(Value value) {
  return cast<RowType>(value.getType()).getWidth();
}

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

Value ModelBuilder::activated(const moert::GluActivation &by, Value gate, Value up) {
  return ActivateOp::create(builder, where, gate.getType(), gate, up,
                            static_cast<ir::Activation>(by.kind), APFloat(by.alpha),
                            APFloat(by.limit));
}

Value ModelBuilder::sum(Value a, Value b, float scale) {
  return AddOp::create(builder, where, a.getType(), a, b, APFloat(scale));
}

//===----------------------------------------------------------------------===//
// Mixers
//===----------------------------------------------------------------------===//

Value ModelBuilder::build(const std::string &layer, const AttentionDescription &attention,
                          Value input) {
  // First all products of the input, which are computed together.
  Value query = attentionProduct(layer + ".query", attention.query, input);
  Value key = attentionProduct(layer + ".key", attention.key, input);
  Value value =
      attention.valuesAreKeys ? key : attentionProduct(layer + ".value", attention.value, input);
  Value gate;
  if (attention.gate)
    gate = attentionProduct(layer + ".attention_gate", *attention.gate, input);
  if (attention.valueNorm)
    value = plainNormed(value, *attention.valueNorm, attention.valueHeadDim);
  const auto normalize = [&] {
    if (const auto &norm = attention.queryNorm)
      query = normedRuns(layer + ".query_norm", *norm, query, norm->weight.cols);
    if (const auto &norm = attention.keyNorm)
      key = normedRuns(layer + ".key_norm", *norm, key, norm->weight.cols);
  };
  if (!attention.normsAfterRope)
    normalize();
  if (attention.clip)
    for (Value *each : {&query, &key, &value})
      *each = ClampOp::create(builder, where, each->getType(), *each, APFloat(*attention.clip));
  query = rotated(attention.rope, query, attention.heads, attention.headDim);
  key = rotated(attention.rope, key, attention.kvHeads, attention.headDim);
  if (attention.normsAfterRope)
    normalize();
  if (attention.plainNormEpsilon)
    for (Value *each : {&query, &key})
      *each = plainNormed(*each, *attention.plainNormEpsilon, attention.headDim);
  if (const auto &scale = attention.queryScale)
    query = ScaleByPositionOp::create(builder, where, query.getType(), query, APFloat(scale->scale),
                                      scale->period);
  StoreKvOp::create(builder, where, key, value, slotOf(layer, attention));
  if (attention.indexer)
    choose(layer + ".indexer", *attention.indexer, input, input);
  Value result = attended(layer, attention, query);
  if (gate)
    result = gated(result, gate, ir::GateKind::kSigmoid);
  return attentionProduct(layer + ".output", attention.output, result);
}

Value ModelBuilder::attended(const std::string &layer, const AttentionDescription &attention,
                             Value query) {
  const RowType type = row(uint64_t(attention.heads) * attention.valueHeadDim);
  const std::string slot = slotOf(layer, attention);
  if (attention.indexer)
    return AttendChosenOp::create(builder, where, type, query, chosenKeys, slot, attention.heads,
                                  APFloat(attention.scale));
  if (attention.range == moert::AttendedRange::kEarlier && !attention.positionBias)
    return AttendOp::create(builder, where, type, query, slot, attention.heads, attention.window,
                            APFloat(attention.scale), symbol(layer + ".sinks", attention.sinks),
                            attention.chunked);
  FlatSymbolRefAttr bias;
  PositionBiasDescription by;
  if (attention.positionBias) {
    by = model.positionBiases[*attention.positionBias];
    bias = symbol(("position_bias" + Twine(*attention.positionBias)).str());
  }
  return AttendRangeOp::create(builder, where, type, query, slot, attention.heads,
                               static_cast<ir::AttendedRange>(attention.range),
                               APFloat(attention.scale), bias, by.buckets, by.maxDistance);
}

Value ModelBuilder::buildCross(const std::string &name, const AttentionDescription &attention,
                               Value input) {
  Value query = attentionProduct(name + ".query", attention.query, input);
  return attentionProduct(name + ".output", attention.output, attended(name, attention, query));
}

void ModelBuilder::storeCross(const std::string &name, const AttentionDescription &attention,
                              Value encoded) {
  Value key = attentionProduct(name + ".key", attention.key, encoded);
  Value value = attentionProduct(name + ".value", attention.value, encoded);
  StoreKvOp::create(builder, where, key, value, name + ".kv");
}

Value ModelBuilder::pooled(const std::string &name, const PoolDescription &pool, Value keys,
                           Value gate, uint32_t width) {
  if (!gate) // All tokens have the same weight.
    gate = scaled(keys, 0);
  Value key = PoolOp::create(builder, where, row(width), keys, gate,
                             pool.gate ? symbol(name + ".bias") : FlatSymbolRefAttr(),
                             name + ".sums", pool.tokens, pool.overlapping);
  return normed(name + ".norm", pool.norm, key);
}

void ModelBuilder::choose(const std::string &name, const IndexerDescription &indexer, Value input,
                          Value latent, uint32_t window) {
  const auto &pool = indexer.pool;
  Value key = attentionProduct(name + ".key", indexer.key, input);
  Value gate;
  if (pool && pool->gate)
    gate = attentionProduct(name + ".pool.gate", *pool->gate, input);
  Value weights;
  if (indexer.weights)
    weights = attentionProduct(name + ".weights", *indexer.weights, input);
  Value query = attentionProduct(name + ".query", indexer.query, latent);
  const uint32_t width = widthOf(query) / indexer.heads;
  if (!weights) // Positive, and of all heads the same.
    weights = applied(ir::RowFunction::kSoftplus, scaled(query, 0), "", "");
  if (indexer.queryNorm)
    query = normedRuns(name + ".query_norm", *indexer.queryNorm, query, width);
  key = normed(name + ".key_norm", indexer.keyNorm, key);
  if (pool)
    key = pooled(name + ".pool", *pool, key, gate, width);
  key = rotatedPart(indexer.rope, key, 1, width, indexer.firstRotated, pool ? pool->tokens : 1);
  query = rotatedPart(indexer.rope, query, indexer.heads, width, indexer.firstRotated, 1);
  const std::string slot = name + ".keys";
  if (!pool)
    chosenKeys = ChooseKeysOp::create(builder, where, numbers(indexer.most), query, key, weights,
                                      slot, indexer.heads);
  else
    chosenKeys = ChoosePoolsOp::create(
        builder, where,
        numbers(window == 0 ? (indexer.most + 1) * pool->tokens - 1 : window + indexer.most), query,
        key, weights, slot, indexer.heads, pool->tokens, window);
}

Value ModelBuilder::build(const std::string &layer, const CompressedAttentionDescription &attention,
                          Value input) {
  const uint32_t heads = attention.heads, headDim = attention.headDim,
                 first = attention.firstRotated;
  const auto &pool = attention.pool;
  const std::string slot = layer + ".kv";
  // First the products of the input, which are computed together.
  Value latent = attentionProduct(layer + ".query_down", attention.queryDown, input);
  Value key = attentionProduct(layer + ".key", attention.key, input);
  Value poolKey, gate;
  if (pool) {
    poolKey = attentionProduct(layer + ".pooled", attention.pooled, input);
    gate = attentionProduct(layer + ".pool.gate", *pool->gate, input);
  }
  latent = normed(layer + ".query_norm", attention.queryNorm, latent);
  Value query = attentionProduct(layer + ".query", attention.query, latent);
  query = plainNormed(query, attention.epsilon, headDim);
  query = rotatedPart(attention.rope, query, heads, headDim, first, 1);
  key = normed(layer + ".key_norm", attention.keyNorm, key);
  key = rotatedPart(attention.rope, key, 1, headDim, first, 1);
  StoreKeyOp::create(builder, where, key, slot, 0);
  const FlatSymbolRefAttr sinks = symbol(layer + ".sinks");
  const APFloat scale(attention.scale);
  Value attended;
  if (!pool) {
    attended = AttendOp::create(builder, where, query.getType(), query, slot, heads,
                                attention.window, scale, sinks);
  } else {
    poolKey = pooled(layer + ".pool", *pool, poolKey, gate, headDim);
    poolKey = rotatedPart(attention.rope, poolKey, 1, headDim, first, pool->tokens);
    StoreKeyOp::create(builder, where, poolKey, slot, pool->tokens);
    if (attention.indexer)
      choose(layer + ".indexer", *attention.indexer, input, latent, attention.window);
    else
      chosenKeys = ListPoolsOp::create(
          builder, where, numbers(attention.window + model.maxPositions / pool->tokens),
          pool->tokens, attention.window);
    attended = AttendPoolsOp::create(builder, where, query.getType(), query, chosenKeys, slot,
                                     heads, scale, sinks);
  }
  attended = rotatedPart(attention.rope, attended, heads, headDim, first, 1, /*inverse=*/true);
  attended = LinearHeadsOp::create(builder, where, row(attention.outputDown.rows), attended,
                                   layer + ".output_down", attention.groups, 0u);
  return attentionProduct(layer + ".output", attention.output, attended);
}

Value ModelBuilder::build(const std::string &layer, const LatentAttentionDescription &attention,
                          Value input) {
  const uint32_t heads = attention.heads, shared = attention.key.weight.rows,
                 rank = attention.latent.weight.rows;
  const auto perHead = [&](const std::string &name, const WeightSource &weight, Value of,
                           uint32_t kept) {
    return LinearHeadsOp::create(builder, where, row(weight.rows + uint64_t(heads) * kept), of,
                                 name, heads, kept);
  };
  // First the products of the input, which are computed together.
  const auto &down = attention.queryDown;
  Value query = down ? attentionProduct(layer + ".query_down", *down, input)
                     : attentionProduct(layer + ".query", attention.query, input);
  Value key;
  if (shared > 0)
    key = attentionProduct(layer + ".key", attention.key, input);
  Value latent = attentionProduct(layer + ".latent", attention.latent, input);
  Value gate;
  if (attention.gate)
    gate = attentionProduct(layer + ".gate", *attention.gate, input);
  latent = normed(layer + ".latent_norm", attention.latentNorm, latent);
  query = normed(layer + ".query_norm", attention.queryNorm, query);
  if (attention.indexer)
    choose(layer + ".indexer", *attention.indexer, input, query);
  if (down)
    query = attentionProduct(layer + ".query", attention.query, query);
  Value absorbed = perHead(layer + ".key_up", attention.keyUp, query, shared);
  if (shared > 0) {
    absorbed = rotated(attention.rope, absorbed, heads, shared + rank);
    key = rotated(attention.rope, key, 1, shared);
    StoreKvOp::create(builder, where, key, latent, layer + ".kv");
  } else {
    StoreKeyOp::create(builder, where, latent, layer + ".kv", 0u);
  }
  const RowType result = row(uint64_t(heads) * rank);
  const APFloat scale(attention.scale);
  Value attended;
  if (attention.indexer || attention.sharesChoice)
    attended = AttendChosenOp::create(builder, where, result, absorbed, chosenKeys, layer + ".kv",
                                      heads, scale);
  else
    attended = AttendOp::create(builder, where, result, absorbed, layer + ".kv", heads,
                                /*window=*/0u, scale, /*sinks=*/FlatSymbolRefAttr());
  attended = perHead(layer + ".value_up", attention.valueUp, attended, 0);
  if (gate)
    attended = GateRowsOp::create(builder, where, attended.getType(), attended, gate);
  return attentionProduct(layer + ".output", attention.output, attended);
}

Value ModelBuilder::build(const std::string &layer, const DeltaNetDescription &net, Value input) {
  // First all products of the input, which are computed together.
  Value query = attentionProduct(layer + ".query", net.query.linear, input);
  Value key = attentionProduct(layer + ".key", net.key.linear, input);
  Value value = attentionProduct(layer + ".value", net.value.linear, input);
  Value gate = attentionProduct(net.gateDown ? layer + ".gate_down" : layer + ".gate",
                                net.gateDown ? *net.gateDown : net.gate, input);
  Value decay = attentionProduct(net.decayDown ? layer + ".decay_down" : layer + ".decay",
                                 net.decayDown ? *net.decayDown : net.decay, input);
  Value write = attentionProduct(layer + ".write", net.write, input);
  if (net.gateDown)
    gate = attentionProduct(layer + ".gate", net.gate, gate);
  if (net.decayDown)
    decay = attentionProduct(layer + ".decay", net.decay, decay);
  query = activeConvolved(layer + ".query", net.query, query);
  key = activeConvolved(layer + ".key", net.key, key);
  value = activeConvolved(layer + ".value", net.value, value);
  const uint32_t keyDim = widthOf(key) / net.keyHeads;
  for (Value *each : {&query, &key})
    *each = UnitNormOp::create(builder, where, each->getType(), *each, APFloat(net.lengthEpsilon),
                               keyDim);
  if (net.decayBound)
    decay = BoundedDecayOp::create(builder, where, decay.getType(), decay, layer + ".log_rate",
                                   layer + ".decay_bias", APFloat(*net.decayBound));
  else
    decay = DecayOp::create(builder, where, decay.getType(), decay, layer + ".log_rate",
                            layer + ".decay_bias");
  // Division and square root are correctly rounded on every machine.
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(keyDim)));
  Value read = DeltaRuleOp::create(builder, where, value.getType(), query, key, value, decay, write,
                                   layer + ".state", net.keyHeads, net.heads, APFloat(scale));
  read = normedRuns(layer + ".output_norm", net.outputNorm, read, net.outputNorm.weight.cols);
  read = net.gatesBySigmoid ? gated(read, gate, ir::GateKind::kSigmoid) : activated({}, gate, read);
  return attentionProduct(layer + ".output", net.output, read);
}

Value ModelBuilder::build(const std::string &layer, const ShortConvolutionDescription &mixer,
                          Value input) {
  Value before = attentionProduct(layer + ".before", mixer.before, input);
  Value value = attentionProduct(layer + ".value", mixer.value, input);
  Value after = attentionProduct(layer + ".after", mixer.after, input);
  value = gated(value, before, ir::GateKind::kLinear);
  value = gated(convolved(layer + ".value", value, false), after, ir::GateKind::kLinear);
  return attentionProduct(layer + ".output", mixer.output, value);
}

Value ModelBuilder::build(const std::string &layer, const StateSpaceDescription &space,
                          Value input) {
  // First all products of the input, which are computed together.
  Value value = attentionProduct(layer + ".value", space.value.linear, input);
  Value key = attentionProduct(layer + ".key", space.key.linear, input);
  Value query = attentionProduct(layer + ".query", space.query.linear, input);
  Value gate = attentionProduct(layer + ".gate", space.gate, input);
  Value step = attentionProduct(layer + ".step", space.step, input);
  value = activeConvolved(layer + ".value", space.value, value);
  key = activeConvolved(layer + ".key", space.key, key);
  query = activeConvolved(layer + ".query", space.query, query);
  Value read = StateSpaceOp::create(builder, where, value.getType(), query, key, value,
                                    stepped(layer, step), layer + ".log_rate", layer + ".skip",
                                    layer + ".state", space.keyHeads, space.heads);
  read = activated({}, gate, read);
  // The weights differ from segment to segment.
  read = plainNormed(read, space.outputNorm.epsilon, widthOf(read) / space.keyHeads);
  read = applied(ir::RowFunction::kIdentity, read, layer + ".output_norm", "");
  return attentionProduct(layer + ".output", space.output, read);
}

Value ModelBuilder::build(const std::string &layer, const SelectiveScanDescription &scan,
                          Value input) {
  Value value = attentionProduct(layer + ".value", scan.value.linear, input);
  Value gate = attentionProduct(layer + ".gate", scan.gate, input);
  value = activeConvolved(layer + ".value", scan.value, value);
  Value step = attentionProduct(layer + ".step_down", scan.stepDown, value);
  Value key = attentionProduct(layer + ".key", scan.key, value);
  Value query = attentionProduct(layer + ".query", scan.query, value);
  step = normed(layer + ".step_norm", scan.stepNorm, step);
  key = normed(layer + ".key_norm", scan.keyNorm, key);
  query = normed(layer + ".query_norm", scan.queryNorm, query);
  step = stepped(layer, attentionProduct(layer + ".step", scan.step, step));
  Value read = SelectiveScanOp::create(builder, where, value.getType(), query, key, value, step,
                                       layer + ".log_rate", layer + ".skip", layer + ".state");
  return attentionProduct(layer + ".output", scan.output, activated({}, gate, read));
}

Value ModelBuilder::build(const std::string &layer, const WindowAttentionDescription &attention,
                          Value input) {
  Value query = attentionProduct(layer + ".query", attention.query, input);
  Value key = attentionProduct(layer + ".key", attention.key, input);
  Value value = attentionProduct(layer + ".value", attention.value, input);
  Value attended = AttendWindowsOp::create(
      builder, where, query.getType(), query, key, value, layer + ".position_bias", attention.heads,
      attention.side, attention.window, attention.shift, APFloat(attention.scale));
  return attentionProduct(layer + ".output", attention.output, attended);
}

Value ModelBuilder::buildMixer(const std::string &layer, const LayerDescription &from,
                               Value input) {
  if (from.latentAttention)
    return build(layer, *from.latentAttention, input);
  if (from.compressedAttention)
    return build(layer, *from.compressedAttention, input);
  if (from.deltaNet)
    return build(layer, *from.deltaNet, input);
  if (from.shortConvolution)
    return build(layer, *from.shortConvolution, input);
  if (from.stateSpace)
    return build(layer, *from.stateSpace, input);
  if (from.selectiveScan)
    return build(layer, *from.selectiveScan, input);
  if (from.windowAttention)
    return build(layer, *from.windowAttention, input);
  return build(layer, from.attention, input);
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
