// FlexOlmo: OLMoE with a norm after attention and after the network instead of before them, h +=
// norm(attention(h)). Reference: transformers, models/flex_olmo/modeling_flex_olmo.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <utility>

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of FlexOlmoConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "100352"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "11008"},
    {"num_hidden_layers", "int", "32"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "null"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "4096"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "100257"},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
    {"num_experts_per_tok", "int", "5"},
    {"num_experts", "int", "7", KeyEffect::kUsed, "num_local_experts"},
    {"norm_topk_prob", "flag", "false"},
    {"rope_theta", "real", "500000.0"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kFlexOlmoKeys = kRows;

static Result<RoutedConfig> readRouted(const ConfigObject &config) {
  RoutedConfig routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob"));
  return routed;
}

Result<ModelDescription> describeFlexOlmo(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const RoutedConfig routed, readRouted(input.config));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.";
    addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kAllHeads,
                 layer.attention);
    layer.attentionNorm = layer.networkNorm = std::nullopt;
    layer.attentionOutputNorm =
        rmsNorm(decoder, prefix + "post_attention_layernorm.weight", decoder.hiddenSize);
    layer.networkOutputNorm =
        rmsNorm(decoder, prefix + "post_feedforward_layernorm.weight", decoder.hiddenSize);
    MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, routed, prefix + "mlp."));
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
