// Qwen3-MoE: as Qwen2-MoE without biases and shared expert, with a norm per head of queries and
// keys before the rotary embedding, and an explicit head_dim. Reference: transformers,
// models/qwen3_moe/modular_qwen3_moe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;

namespace {

struct Qwen3MoeConfig {
  RoutedConfig routed;
  uint32_t denseWidth = 0;
  uint32_t window = 0;
  std::vector<bool> isRouted; // Per layer.
};

Result<Qwen3MoeConfig> readQwen3Moe(const ConfigObject &config, uint32_t layers) {
  Qwen3MoeConfig qwen;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  RoutedConfig &routed = qwen.routed;
  MOERT_ASSIGN_OR_RETURN(
      routed.experts, readAlias(config, "num_experts", "num_local_experts", 1, kMaxExperts, 128));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts", 8));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth, 768));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob", false));
  MOERT_ASSIGN_OR_RETURN(qwen.isRouted, readRoutedLayers(config, layers));
  if (std::find(qwen.isRouted.begin(), qwen.isRouted.end(), false) != qwen.isRouted.end()) {
    MOERT_ASSIGN_OR_RETURN(qwen.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  }
  // The window is that of all layers, unlike in Qwen2-MoE.
  MOERT_ASSIGN_OR_RETURN(const bool useWindow, config.boolean("use_sliding_window", false));
  if (useWindow) {
    MOERT_ASSIGN_OR_RETURN(qwen.window, config.integer("sliding_window", 1, kMaxWindow));
  }
  return qwen;
}

} // namespace

Result<ModelDescription> describeQwen3Moe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const Qwen3MoeConfig qwen, readQwen3Moe(input.config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "mlp.";
    addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kHead,
                 layer.attention);
    layer.attention.window = qwen.window;
    if (!qwen.isRouted[number]) {
      layer.dense =
          gluNetwork(module, {{}, decoder.hiddenSize, qwen.denseWidth, decoder.activation});
      return Status();
    }
    MOERT_ASSIGN_OR_RETURN(layer.moe, routedNetwork(input, decoder, qwen.routed, module));
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
