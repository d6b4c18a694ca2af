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

/// The keys of Qwen2MoeConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "151936"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "5632"},
    {"num_hidden_layers", "int", "24"},
    {"num_attention_heads", "int", "16"},
    {"num_key_value_heads", "int?", "16"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "32768"},
    {"rms_norm_eps", "real", "1e-06"},
    {"tie_word_embeddings", "flag", "false"},
    {"use_sliding_window", "flag", "false"},
    {"sliding_window", "int?", "4096"},
    {"max_window_layers", "int", "28"},
    {"decoder_sparse_step", "int", "1"},
    {"moe_intermediate_size", "int", "1408"},
    {"shared_expert_intermediate_size", "int", "5632"},
    {"num_experts_per_tok", "int", "4"},
    {"num_experts", "int", "60", KeyEffect::kUsed, "num_local_experts"},
    {"norm_topk_prob", "flag", "false"},
    {"mlp_only_layers", "list?", "null"},
    {"qkv_bias", "flag", "true"},
    {"layer_types", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kQwen2MoeKeys = kRows;

namespace {

struct Qwen2MoeConfig {
  RoutedConfig routed;
  uint32_t sharedWidth = 0;
  uint32_t denseWidth = 0;
  std::vector<uint32_t> windows; // Per layer.
  std::vector<bool> isRouted;    // Per layer.
};

/// As in the reference class: an explicit list, or every other layer below max_window_layers.
Result<std::vector<uint32_t>> readWindows(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"full_attention", "sliding_attention"}));
  MOERT_ASSIGN_OR_RETURN(const bool useWindow, config.boolean("use_sliding_window"));
  MOERT_ASSIGN_OR_RETURN(const uint32_t end,
                         config.integer("max_window_layers", 0, kMaxLayerNumber));
  std::vector<uint32_t> windows(layers, 0);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (types.empty() ? !useWindow || layer % 2 != 0 || layer >= end
                      : types[layer] == "full_attention")
      continue;
    if (!useWindow)
      return config.mismatch("layer_types", "full_attention, as use_sliding_window is false");
    MOERT_ASSIGN_OR_RETURN(windows[layer], config.integer("sliding_window", 1, kMaxWindow));
  }
  return windows;
}

Result<Qwen2MoeConfig> readQwen2Moe(const ConfigObject &config, uint32_t layers) {
  Qwen2MoeConfig qwen;
  RoutedConfig &routed = qwen.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(qwen.sharedWidth,
                         config.integer("shared_expert_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob"));
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
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(decoder.inputBiases, input.config.boolean("qkv_bias"));
  MOERT_ASSIGN_OR_RETURN(const Qwen2MoeConfig qwen, readQwen2Moe(input.config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
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
