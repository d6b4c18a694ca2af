// gpt-oss: attention sinks, a sliding window in every other layer, biases everywhere, a clamped
// SwiGLU, and experts fused with the rows of gate and up interleaved. The softmax over the chosen
// experts equals one over all of them, renormalized. Reference: transformers,
// models/gpt_oss/modular_gpt_oss.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

namespace {

/// Biases of all experts are one vector, whose size is a 32-bit number.
constexpr uint64_t kMostBiases = 1u << 30;
constexpr double kMostLimit = 1e6;

struct GptOssConfig {
  RoutedConfig routed;
  bool hasAttentionBias = true;
  std::vector<uint32_t> windows; // Per layer; 0: full attention.
  moert::GluActivation activation;
};

Result<std::vector<uint32_t>> readWindows(const ConfigObject &config, uint32_t layers) {
  std::vector<std::string> types;
  if (config.has("layer_types")) {
    MOERT_ASSIGN_OR_RETURN(types, config.strings("layer_types"));
  } else {
    for (uint32_t layer = 0; layer < layers; ++layer)
      types.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  }
  if (types.size() != layers)
    return config.mismatch("layer_types", strCat("an entry for each of ", layers, " layers"));
  std::vector<uint32_t> windows(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (types[layer] == "full_attention")
      continue;
    if (types[layer] != "sliding_attention")
      return config.mismatch("layer_types", "only sliding_attention and full_attention");
    MOERT_ASSIGN_OR_RETURN(windows[layer], config.integer("sliding_window", 1, kMaxWindow, 128));
  }
  return windows;
}

Result<RoutedConfig> readRouted(const ConfigObject &config, uint32_t hidden) {
  RoutedConfig routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_local_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK, readAlias(config, "num_experts_per_tok", "experts_per_token",
                                                1, kMaxExperts, 4));
  if (routed.topK > routed.experts)
    return config.mismatch("num_experts_per_tok", "at most num_local_experts");
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  if (uint64_t{routed.experts} * std::max(2 * routed.width, hidden) > kMostBiases)
    return config.mismatch("num_local_experts",
                           strCat("at most ", kMostBiases, " biases of experts in a layer"));
  routed.renormalize = true;
  return routed;
}

Result<GptOssConfig> readGptOss(const ConfigObject &config, const DecoderConfig &decoder) {
  GptOssConfig oss;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"mlp_bias", "lm_head_bias"}));
  if (!config.has("rope_parameters")) // The class's default is YaRN with its own numbers.
    MOERT_RETURN_IF_ERROR(requireKeys(config, {"rope_scaling"}));
  MOERT_ASSIGN_OR_RETURN(oss.routed, readRouted(config, decoder.hiddenSize));
  MOERT_ASSIGN_OR_RETURN(oss.hasAttentionBias, config.boolean("attention_bias", true));
  MOERT_ASSIGN_OR_RETURN(oss.windows, readWindows(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(const double limit, config.real("swiglu_limit", 1e-3, kMostLimit, 7));
  MOERT_ASSIGN_OR_RETURN(const double alpha, config.real("swiglu_alpha", 1e-3, kMostLimit, 1.702));
  oss.activation = {moert::Activation::kClampedSwiglu, static_cast<float>(alpha),
                    static_cast<float>(limit)};
  return oss;
}

/// Tensors [E, inputs, 2 * width] and [E, width, outputs], and their biases without the inputs.
void addExperts(const DecoderConfig &decoder, const GptOssConfig &oss, const std::string &prefix,
                MoeDescription &moe) {
  const uint32_t experts = oss.routed.experts, width = oss.routed.width,
                 hidden = decoder.hiddenSize;
  const std::string gateUp = prefix + "gate_up_proj", down = prefix + "down_proj";
  moe.experts.resize(experts);
  for (uint32_t expert = 0; expert < experts; ++expert) {
    GluDescription &network = moe.experts[expert];
    network.activation = oss.activation;
    network.gate.weight = network.up.weight = matrixSource(gateUp, width, hidden);
    network.gate.weight.rowStep = network.up.weight.rowStep = 2;
    network.up.weight.firstRow = 1;
    network.down.weight = matrixSource(down, hidden, width);
    for (LinearDescription *matrix : {&network.gate, &network.up, &network.down}) {
      matrix->weight.index = expert;
      matrix->weight.transposed = true;
    }
  }
  moe.gateBias = moe.upBias = vectorSource(gateUp + "_bias", experts * width);
  moe.gateBias->rowStep = moe.upBias->rowStep = 2;
  moe.upBias->firstRow = 1;
  moe.downBias = vectorSource(down + "_bias", experts * hidden);
  moe.gateBias->stackedVectors = moe.upBias->stackedVectors = moe.downBias->stackedVectors =
      experts;
}

} // namespace

Result<ModelDescription> describeGptOss(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  decoder.rope.defaultTheta = 150000;
  MOERT_ASSIGN_OR_RETURN(const GptOssConfig oss, readGptOss(input.config, decoder));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    AttentionDescription &attention = layer.attention;
    const std::string module = prefix + "self_attn.";
    if (oss.hasAttentionBias) {
      addBias(attention.query, module + "q_proj.");
      addBias(attention.key, module + "k_proj.");
      addBias(attention.value, module + "v_proj.");
      addBias(attention.output, module + "o_proj.");
    }
    attention.sinks = vectorSource(module + "sinks", decoder.heads);
    attention.window = oss.windows[number];
    MoeDescription &moe = layer.moe.emplace();
    moe.router = softmaxRouter(decoder, oss.routed, prefix + "mlp.router.");
    addBias(moe.router.linear, prefix + "mlp.router.");
    addExperts(decoder, oss, prefix + "mlp.experts.", moe);
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
