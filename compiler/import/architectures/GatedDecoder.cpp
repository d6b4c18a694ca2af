#include "compiler/import/architectures/GatedDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The reference implementation's constant for the lengths of queries and keys.
static constexpr float kLengthEpsilon = 1e-6f;

static Status readMixers(const ConfigObject &config, GatedDecoderConfig &gated) {
  const uint32_t layers = gated.decoder.layerCount;
  MOERT_ASSIGN_OR_RETURN(
      const std::vector<std::string> types,
      readLayerTypes(config, layers, {"linear_attention", "full_attention", "indexed_attention"}));
  MOERT_ASSIGN_OR_RETURN(const uint32_t interval,
                         config.integer("full_attention_interval", 1, kMaxLayerNumber));
  for (uint32_t layer = 0; layer < layers; ++layer)
    gated.isRecurrent.push_back(types.empty() ? (layer + 1) % interval != 0
                                              : types[layer] == "linear_attention");
  return Status();
}

static Status readDeltaNet(const ConfigObject &config, GatedDecoderConfig &gated) {
  MOERT_ASSIGN_OR_RETURN(gated.keyHeads, config.integer("linear_num_key_heads", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(gated.heads, config.integer("linear_num_value_heads", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(gated.keyDim, config.integer("linear_key_head_dim", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(gated.valueDim, config.integer("linear_value_head_dim", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(gated.taps, config.integer("linear_conv_kernel_dim", 2, kMaxTaps));
  if (gated.heads % gated.keyHeads != 0)
    return config.mismatch("linear_num_value_heads",
                           strCat("a multiple of linear_num_key_heads, ", gated.keyHeads));
  if (uint64_t{gated.heads} * gated.keyDim * gated.valueDim > kMaxStateElements)
    return config.mismatch("linear_num_value_heads",
                           strCat("heads whose states of ", gated.keyDim, " x ", gated.valueDim,
                                  " have at most ", kMaxStateElements, " elements together"));
  if (gated.keys() < kLeastConvolved)
    return config.mismatch("linear_key_head_dim",
                           strCat("heads of at least ", kLeastConvolved, " elements together"));
  if (gated.values() < kLeastConvolved)
    return config.mismatch("linear_value_head_dim",
                           strCat("heads of at least ", kLeastConvolved, " elements together"));
  return Status();
}

Result<GatedDecoderConfig> readGatedDecoder(const ConfigObject &config) {
  GatedDecoderConfig gated;
  MOERT_ASSIGN_OR_RETURN(gated.decoder, readDecoderConfig(config));
  MOERT_RETURN_IF_ERROR(setPartialRotation(config, gated.decoder));
  gated.decoder.normsAddOne = true;
  MOERT_RETURN_IF_ERROR(readMixers(config, gated));
  MOERT_RETURN_IF_ERROR(readDeltaNet(config, gated));
  RoutedConfig &routed = gated.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(gated.sharedWidth,
                         config.integer("shared_expert_intermediate_size", 1, kMaxWidth));
  return gated;
}

void describeGatedAttention(const GatedDecoderConfig &config, const std::string &prefix,
                            LayerDescription &layer) {
  const DecoderConfig &decoder = config.decoder;
  AttentionDescription &attention = layer.attention;
  attention.gate = attention.query;
  attention.gate->weight.firstRow = decoder.headDim;
  for (WeightSource *source : {&attention.query.weight, &attention.gate->weight}) {
    source->blocks = decoder.heads;
    source->blockStep = 2 * decoder.headDim;
  }
  addHeadNorms(decoder, prefix + "self_attn.q_norm", prefix + "self_attn.k_norm", NormExtent::kHead,
               attention);
}

DeltaNetDescription &describeDeltaNet(const GatedDecoderConfig &config, const std::string &module,
                                      LayerDescription &layer) {
  layer.attention = {};
  DeltaNetDescription &net = layer.deltaNet.emplace();
  net.keyHeads = config.keyHeads;
  net.heads = config.heads;
  net.lengthEpsilon = kLengthEpsilon;
  // The channels of the convolution are all queries, all keys, all values.
  const std::string taps = module + "conv1d.weight";
  net.query.taps = net.key.taps = matrixSource(taps, config.keys(), config.taps);
  net.value.taps = matrixSource(taps, config.values(), config.taps);
  net.key.taps.firstRow = config.keys();
  net.value.taps.firstRow = 2 * config.keys();
  net.logRate = vectorSource(module + "A_log", config.heads);
  net.decayBias = vectorSource(module + "dt_bias", config.heads);
  net.outputNorm = rmsNorm(config.decoder, module + "norm.weight", config.valueDim);
  net.outputNorm.weight.addsOne = false; // Unlike all others.
  net.output = linearLayer(module + "out_proj.", config.decoder.hiddenSize, config.values());
  return net;
}

void setSplitSources(const GatedDecoderConfig &config, const std::string &module,
                     DeltaNetDescription &net) {
  const uint32_t hidden = config.decoder.hiddenSize;
  const std::string qkv = module + "in_proj_qkv.";
  net.query.linear = linearLayer(qkv, config.keys(), hidden);
  net.key.linear = linearLayer(qkv, config.keys(), hidden);
  net.key.linear.weight.firstRow = config.keys();
  net.value.linear = linearLayer(qkv, config.values(), hidden);
  net.value.linear.weight.firstRow = 2 * config.keys();
  net.gate = linearLayer(module + "in_proj_z.", config.values(), hidden);
  net.write = linearLayer(module + "in_proj_b.", config.heads, hidden);
  net.decay = linearLayer(module + "in_proj_a.", config.heads, hidden);
}

Status describeGatedNetwork(const ArchitectureInput &input, const GatedDecoderConfig &config,
                            const std::string &module, LayerDescription &layer) {
  const DecoderConfig &decoder = config.decoder;
  MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, config.routed, module));
  SharedExpertDescription &shared = layer.moe->shared.emplace();
  shared.network = gluNetwork(module + "shared_expert.",
                              {{}, decoder.hiddenSize, config.sharedWidth, decoder.activation});
  shared.gate = linearLayer(module + "shared_expert_gate.", 1, decoder.hiddenSize);
  return Status();
}

} // namespace moec
