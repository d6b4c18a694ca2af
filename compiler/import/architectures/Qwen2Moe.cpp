// Qwen2-MoE (and Qwen1.5-MoE): biases on queries, keys and values; routed and dense layers; a
// shared expert with a gate; router weights renormalized only if the config says so. Every config
// has a window, which is ignored unless use_sliding_window is true.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

struct Qwen2MoeConfig {
  RoutedConfig routed;
  uint32_t sharedWidth = 0;
  uint32_t denseWidth = 0;
  bool hasBias = true;
  std::vector<uint32_t> windows; // Per layer.
  std::vector<bool> isRouted;    // Per layer.
};

/// As in the reference class: an explicit list, or every other layer below max_window_layers.
Result<std::vector<uint32_t>> readWindows(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const bool useWindow, config.boolean("use_sliding_window", false));
  std::vector<bool> isSliding(layers);
  if (config.has("layer_types")) {
    MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types, config.strings("layer_types"));
    if (types.size() != layers)
      return config.mismatch("layer_types", strCat("one entry for each of ", layers, " layers"));
    for (uint32_t layer = 0; layer < layers; ++layer) {
      isSliding[layer] = types[layer] == "sliding_attention";
      if (!isSliding[layer] && types[layer] != "full_attention")
        return config.mismatch("layer_types", "full_attention or sliding_attention");
      if (isSliding[layer] && !useWindow)
        return config.mismatch("layer_types", "full_attention, as use_sliding_window is false");
    }
  } else if (useWindow) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t end,
                           config.integer("max_window_layers", 0, kMaxLayerNumber));
    for (uint32_t layer = 0; layer < std::min(layers, end); layer += 2)
      isSliding[layer] = true;
  }
  std::vector<uint32_t> windows(layers, 0);
  if (!useWindow)
    return windows;
  MOERT_ASSIGN_OR_RETURN(const uint32_t window, config.integer("sliding_window", 1, kMaxWindow));
  for (uint32_t layer = 0; layer < layers; ++layer)
    windows[layer] = isSliding[layer] ? window : 0;
  return windows;
}

Result<Qwen2MoeConfig> readQwen2Moe(const ConfigObject &config, uint32_t layers) {
  Qwen2MoeConfig qwen;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  RoutedConfig &routed = qwen.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts,
                         readAlias(config, "num_experts", "num_local_experts", 1, kMaxExperts, 60));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts", 4));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth, 1408));
  MOERT_ASSIGN_OR_RETURN(qwen.sharedWidth,
                         config.integer("shared_expert_intermediate_size", 1, kMaxWidth, 5632));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob", false));
  MOERT_ASSIGN_OR_RETURN(qwen.hasBias, config.boolean("qkv_bias", true));
  MOERT_ASSIGN_OR_RETURN(qwen.windows, readWindows(config, layers));
  MOERT_ASSIGN_OR_RETURN(qwen.isRouted, readRoutedLayers(config, layers));
  if (std::find(qwen.isRouted.begin(), qwen.isRouted.end(), false) != qwen.isRouted.end()) {
    MOERT_ASSIGN_OR_RETURN(qwen.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  }
  return qwen;
}

Result<MoeDescription> describeMoe(const ArchitectureInput &input, const Qwen2MoeConfig &qwen,
                                   const DecoderConfig &decoder, const std::string &prefix) {
  const uint32_t hidden = decoder.hiddenSize;
  MOERT_ASSIGN_OR_RETURN(MoeDescription moe, routedNetwork(input, decoder, qwen.routed, prefix));
  SharedExpertDescription &shared = moe.shared.emplace();
  shared.network =
      gluNetwork(prefix + "shared_expert.", {{}, hidden, qwen.sharedWidth, decoder.activation});
  shared.gate = linearLayer(prefix + "shared_expert_gate.", 1, hidden);
  return moe;
}

} // namespace

Result<ModelDescription> describeQwen2Moe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const Qwen2MoeConfig qwen, readQwen2Moe(input.config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    if (qwen.hasBias) {
      addBias(layer.attention.query, prefix + "self_attn.q_proj.");
      addBias(layer.attention.key, prefix + "self_attn.k_proj.");
      addBias(layer.attention.value, prefix + "self_attn.v_proj.");
    }
    layer.attention.window = qwen.windows[number];
    const std::string module = prefix + "mlp.";
    if (!qwen.isRouted[number]) {
      layer.dense =
          gluNetwork(module, {{}, decoder.hiddenSize, qwen.denseWidth, decoder.activation});
      return Status();
    }
    MOERT_ASSIGN_OR_RETURN(layer.moe, describeMoe(input, qwen, decoder, module));
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
