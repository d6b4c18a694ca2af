// Composes the mixers of layers: attention in its kinds, convolutions and recurrences.
#include "compiler/ir/ModelBuilder.h"

#include <cmath>

namespace moec {

using llvm::APFloat;

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
  query = scaledByPosition(attention.queryScale, query);
  StoreKvOp::create(builder, where, key, value, slotOf(layer, attention));
  if (attention.indexer)
    choose(layer + ".indexer", *attention.indexer, input, input);
  Value result = attended(layer, attention, query);
  if (gate && attention.gatesBySoftplus) {
    gate = applied(ir::RowFunction::kSoftplus, gate);
    result = ScaleRowsOp::create(builder, where, result.getType(), result, gate);
  } else if (gate) {
    result = gated(result, gate, ir::GateKind::kSigmoid);
  }
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
  query = scaledByPosition(attention.queryScale, query);
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

} // namespace moec
