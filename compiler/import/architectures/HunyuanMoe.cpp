// Hunyuan-A13B: norms per head after the rotary embedding, a softmax router, a shared network of
// the experts' width. Reference: transformers,
// models/hunyuan_v1_moe/modular_hunyuan_v1_moe.py, which gives experts and shared network
// intermediate_size and ignores the keys of the authors' other models (layers that share keys and
// values, dense layers, several shared experts). A config that asks for these is refused.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

struct HunyuanConfig {
  std::vector<RoutedConfig> routed; // Per layer.
  bool hasAttentionBias = false;
};

/// One integer for all layers, or a list with one for each.
Result<std::vector<uint32_t>> readPerLayer(const ConfigObject &config, std::string_view key,
                                           uint32_t layers, uint32_t most) {
  if (const Result<uint32_t> one = config.integer(key, 1, most); one.isOk())
    return std::vector<uint32_t>(layers, *one);
  MOERT_ASSIGN_OR_RETURN(std::vector<uint32_t> values, config.integerOrList(key, 1, most));
  if (values.size() != layers)
    return config.mismatch(
        key, strCat("an integer, or a list with one for each of ", layers, " layers"));
  return values;
}

Status expectInteger(const ConfigObject &config, std::string_view key, uint32_t expected,
                     std::string_view reason) {
  MOERT_ASSIGN_OR_RETURN(const uint32_t value, config.integer(key, 0, kMaxWidth, expected));
  return value == expected ? Status() : config.mismatch(key, strCat(expected, ", ", reason));
}

Status expectPerLayer(const ConfigObject &config, std::string_view key, uint32_t layers,
                      uint32_t expected, std::string_view reason) {
  if (!config.has(key))
    return Status();
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> values,
                         readPerLayer(config, key, layers, kMaxWidth));
  for (const uint32_t value : values)
    if (value != expected)
      return config.mismatch(key, strCat(expected, " for every layer, ", reason));
  return Status();
}

constexpr std::string_view kAsPublished = "as in all published models of this family";

/// Refuses what the reference implementation computes as if the key had its published value.
Status checkUnreadKeys(const ConfigObject &config, const DecoderConfig &decoder, uint32_t width) {
  MOERT_RETURN_IF_ERROR(
      refuseFlags(config, {"mlp_bias", "use_cla", "use_mla", "group_limited_greedy"}));
  for (const std::string_view key : {"use_qk_norm", "use_mixed_mlp_moe", "norm_topk_prob"}) {
    MOERT_ASSIGN_OR_RETURN(const bool flag, config.boolean(key, true));
    if (!flag)
      return config.mismatch(key, strCat("true, ", kAsPublished));
  }
  MOERT_ASSIGN_OR_RETURN(const float factor, readMultiplier(config, "routed_scaling_factor", 1));
  if (factor != 1)
    return config.mismatch("routed_scaling_factor", strCat("1, ", kAsPublished));
  MOERT_RETURN_IF_ERROR(
      expectInteger(config, "attention_head_dim", decoder.headDim, "the same as head_dim"));
  MOERT_RETURN_IF_ERROR(expectInteger(config, "moe_layer_num_skipped", 0, kAsPublished));
  MOERT_RETURN_IF_ERROR(
      expectPerLayer(config, "num_shared_expert", decoder.layerCount, 1, kAsPublished));
  return expectPerLayer(config, "moe_intermediate_size", decoder.layerCount, width,
                        "the same as intermediate_size");
}

Result<HunyuanConfig> readHunyuan(const ConfigObject &config, const DecoderConfig &decoder) {
  HunyuanConfig hunyuan;
  MOERT_ASSIGN_OR_RETURN(hunyuan.hasAttentionBias, config.boolean("attention_bias", false));
  RoutedConfig routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> topK,
                         readPerLayer(config, "moe_topk", decoder.layerCount, routed.experts));
  // The reference's other names for the two.
  MOERT_RETURN_IF_ERROR(
      expectInteger(config, "num_local_experts", routed.experts, "the same as num_experts"));
  for (const uint32_t chosen : topK) {
    MOERT_RETURN_IF_ERROR(
        expectInteger(config, "num_experts_per_tok", chosen, "the same as moe_topk"));
    routed.topK = chosen;
    hunyuan.routed.push_back(routed);
  }
  MOERT_RETURN_IF_ERROR(checkUnreadKeys(config, decoder, routed.width));
  return hunyuan;
}

void addAttentionBiases(AttentionDescription &attention, const std::string &prefix) {
  addBias(attention.query, prefix + "q_proj.");
  addBias(attention.key, prefix + "k_proj.");
  addBias(attention.value, prefix + "v_proj.");
  addBias(attention.output, prefix + "o_proj.");
}

} // namespace

Result<ModelDescription> describeHunyuanMoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const HunyuanConfig hunyuan, readHunyuan(input.config, decoder));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "mlp.";
    if (hunyuan.hasAttentionBias)
      addAttentionBiases(layer.attention, attention);
    addHeadNorms(decoder, attention + "query_layernorm", attention + "key_layernorm",
                 NormExtent::kHead, layer.attention);
    layer.attention.normsAfterRope = true;
    const RoutedConfig &routed = hunyuan.routed[number];
    MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, routed, module));
    layer.moe->router = softmaxRouter(decoder, routed, module + "gate.wg.");
    layer.moe->shared.emplace().network = gluNetwork(
        module + "shared_mlp.", {{}, decoder.hiddenSize, routed.width, decoder.activation});
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
