// FlexOlmo: OLMoE with a norm after attention and after the network instead of before them, h +=
// norm(attention(h)). Reference: transformers, models/flex_olmo/modeling_flex_olmo.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <utility>

namespace moec {

using moert::Result;
using moert::Status;

static Result<RoutedConfig> readRouted(const ConfigObject &config) {
  RoutedConfig routed;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  MOERT_ASSIGN_OR_RETURN(routed.experts,
                         readAlias(config, "num_experts", "num_local_experts", 1, kMaxExperts, 7));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts", 5));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth, 11008));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob", false));
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
