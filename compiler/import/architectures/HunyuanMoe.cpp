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

/// The keys of HunYuanMoEV1Config.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "290943"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "11008"},
    {"num_hidden_layers", "int", "32"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "null"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "2048"},
    {"rms_norm_eps", "real", "1e-05"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"eod_token_id", "any", "3", KeyEffect::kNone},
    {"sep_token_id", "any", "4", KeyEffect::kNone},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
    {"num_experts", "int", "1", KeyEffect::kUsed, "num_local_experts"},
    {"moe_topk", "any", "1", KeyEffect::kUsed, "num_experts_per_tok"},
    {"head_dim", "int?", "null"},
    {"use_cla", "flag", "false", KeyEffect::kDefaultOnly},
    {"use_mla", "flag", "false", KeyEffect::kDefaultOnly},
    {"group_limited_greedy", "flag", "false", KeyEffect::kDefaultOnly},
    {"use_qk_norm", "flag", "true", KeyEffect::kDefaultOnly},
    {"use_mixed_mlp_moe", "flag", "true", KeyEffect::kDefaultOnly},
    {"norm_topk_prob", "flag", "true", KeyEffect::kDefaultOnly},
    {"routed_scaling_factor", "real", "1.0", KeyEffect::kDefaultOnly},
    {"moe_layer_num_skipped", "int", "0", KeyEffect::kDefaultOnly},
    {"num_shared_expert", "any", "1", KeyEffect::kDefaultOnly},
    {"attention_head_dim", "int?", "null"},
    {"moe_intermediate_size", "any", "null"},
};

const ConfigKeys kHunyuanMoeKeys = kRows;

namespace {

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

/// Refuses widths that the reference implementation does not read, but other models have.
Status checkUnreadWidths(const ConfigObject &config, const DecoderConfig &decoder, uint32_t width) {
  const char *const headKey = "attention_head_dim", *const expertKey = "moe_intermediate_size";
  if (config.has(headKey)) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t dim, config.integer(headKey, 0, kMaxHeadDim));
    if (dim != decoder.headDim)
      return config.mismatch(headKey, strCat(decoder.headDim, ", the same as head_dim"));
  }
  if (!config.has(expertKey))
    return Status();
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> widths,
                         readPerLayer(config, expertKey, decoder.layerCount, kMaxWidth));
  for (const uint32_t value : widths)
    if (value != width)
      return config.mismatch(expertKey,
                             strCat(width, " for every layer, the same as intermediate_size"));
  return Status();
}

Result<std::vector<RoutedConfig>> readRouted(const ConfigObject &config,
                                             const DecoderConfig &decoder) {
  RoutedConfig routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> topK,
                         readPerLayer(config, "moe_topk", decoder.layerCount, routed.experts));
  std::vector<RoutedConfig> layers;
  for (const uint32_t chosen : topK) {
    routed.topK = chosen;
    layers.push_back(routed);
  }
  MOERT_RETURN_IF_ERROR(checkUnreadWidths(config, decoder, routed.width));
  return layers;
}

} // namespace

Result<ModelDescription> describeHunyuanMoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  decoder.rope.hasAlpha = true;
  MOERT_ASSIGN_OR_RETURN(const std::vector<RoutedConfig> layers, readRouted(input.config, decoder));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "mlp.";
    addHeadNorms(decoder, attention + "query_layernorm", attention + "key_layernorm",
                 NormExtent::kHead, layer.attention);
    layer.attention.normsAfterRope = true;
    const RoutedConfig &routed = layers[number];
    MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, routed, module));
    layer.moe->router = softmaxRouter(decoder, routed, module + "gate.wg.");
    layer.moe->shared.emplace().network = gluNetwork(
        module + "shared_mlp.", {{}, decoder.hiddenSize, routed.width, decoder.activation});
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
