// OLMoE: norms over the whole projection of queries and of keys, then an optional clamp of queries,
// keys and values; router weights are not renormalized unless the config says so. Its
// intermediate_size is the width of an expert. Reference: transformers,
// models/olmoe/modeling_olmoe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

namespace {

constexpr double kMostClip = 1e6;

struct OlmoeConfig {
  RoutedConfig routed;
  std::optional<float> clip;
};

Result<OlmoeConfig> readOlmoe(const ConfigObject &config) {
  OlmoeConfig olmoe;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  RoutedConfig &routed = olmoe.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts,
                         readAlias(config, "num_experts", "num_local_experts", 1, kMaxExperts, 64));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts", 8));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth, 2048));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob", false));
  if (config.has("clip_qkv")) {
    MOERT_ASSIGN_OR_RETURN(const double clip, config.real("clip_qkv", 1e-6, kMostClip));
    olmoe.clip = static_cast<float>(clip);
  }
  return olmoe;
}

} // namespace

Result<ModelDescription> describeOlmoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const OlmoeConfig olmoe, readOlmoe(input.config));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.";
    addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kAllHeads,
                 layer.attention);
    layer.attention.clip = olmoe.clip;
    MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, olmoe.routed, prefix + "mlp."));
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
