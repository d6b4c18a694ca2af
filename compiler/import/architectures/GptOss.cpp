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

/// The keys of GptOssConfig.
constexpr ConfigKey kRows[] = {
    {"num_hidden_layers", "int", "36"},
    {"num_local_experts", "int", "128", KeyEffect::kUsed, "num_experts"},
    {"vocab_size", "int", "201088"},
    {"hidden_size", "int", "2880"},
    {"intermediate_size", "int", "2880"},
    {"head_dim", "int?", "64"},
    {"num_attention_heads", "int", "64"},
    {"num_key_value_heads", "int?", "8"},
    {"sliding_window", "int?", "128"},
    {"tie_word_embeddings", "flag", "false"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "131072"},
    {"rms_norm_eps", "real", "1e-05"},
    {"rope_parameters", "object~",
     R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false, "original_max_position_embeddings": 4096})"},
    {"num_experts_per_tok", "int", "4", KeyEffect::kUsed, "experts_per_token"},
    {"swiglu_alpha", "real", "1.702"},
    {"swiglu_limit", "real", "7.0"},
    {"layer_types", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"attention_bias", "flag", "true"},
    {"rope_theta", "real", "150000.0"},
};

const ConfigKeys kGptOssKeys = kRows;

namespace {

/// Biases of all experts are one vector, whose size is a 32-bit number.
constexpr uint64_t kMostBiases = 1u << 30;
constexpr double kMostLimit = 1e6;

struct GptOssConfig {
  RoutedConfig routed;
  std::vector<uint32_t> windows; // Per layer; 0: full attention.
  moert::GluActivation activation;
};

Result<std::vector<uint32_t>> readWindows(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"full_attention", "sliding_attention"}));
  std::vector<uint32_t> windows(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (types.empty() ? layer % 2 != 0 : types[layer] == "full_attention")
      continue;
    MOERT_ASSIGN_OR_RETURN(windows[layer], config.integer("sliding_window", 1, kMaxWindow));
  }
  return windows;
}

Result<RoutedConfig> readRouted(const ConfigObject &config, uint32_t hidden) {
  RoutedConfig routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_local_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(
      routed.topK, readTopK(config, "num_experts_per_tok", routed.experts, "num_local_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  if (uint64_t{routed.experts} * std::max(2 * routed.width, hidden) > kMostBiases)
    return config.mismatch("num_local_experts",
                           strCat("at most ", kMostBiases, " biases of experts in a layer"));
  routed.renormalize = true;
  return routed;
}

Result<GptOssConfig> readGptOss(const ConfigObject &config, const DecoderConfig &decoder) {
  GptOssConfig oss;
  MOERT_ASSIGN_OR_RETURN(oss.routed, readRouted(config, decoder.hiddenSize));
  MOERT_ASSIGN_OR_RETURN(oss.windows, readWindows(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(const double limit, config.real("swiglu_limit", 1e-3, kMostLimit));
  MOERT_ASSIGN_OR_RETURN(const double alpha, config.real("swiglu_alpha", 1e-3, kMostLimit));
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
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const GptOssConfig oss, readGptOss(input.config, decoder));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    AttentionDescription &attention = layer.attention;
    const std::string module = prefix + "self_attn.";
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
