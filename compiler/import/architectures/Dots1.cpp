// dots.llm1: norms per head of queries and keys, DeepSeek-V3's sigmoid router. Reference:
// transformers, models/dots1/modular_dots1.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"

namespace moec {

using moert::Result;

/// The keys of Dots1Config.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "152064"},
    {"hidden_size", "int", "4608"},
    {"intermediate_size", "int", "10944"},
    {"moe_intermediate_size", "int", "1408"},
    {"num_hidden_layers", "int", "62"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "32"},
    {"n_shared_experts", "int?", "null"},
    {"n_routed_experts", "int", "null", KeyEffect::kUsed, "num_local_experts"},
    {"n_group", "int", "1"},
    {"topk_group", "int", "1"},
    {"num_experts_per_tok", "int", "null"},
    {"first_k_dense_replace", "int", "0"},
    {"norm_topk_prob", "flag?", "false"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "2048"},
    {"rms_norm_eps", "real", "1e-06"},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
    {"routed_scaling_factor", "real", "1.0"},
    {"sliding_window", "int?", "4096"},
    {"max_window_layers", "int", "62"},
    {"layer_types", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"scoring_func", "text", R"("noaux_tc")", KeyEffect::kNone},
    {"moe_layer_freq", "int", "1", KeyEffect::kDefaultOnly},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kDots1Keys = kRows;

/// The window of each layer, 0 for none: layer_types, or all layers from max_window_layers on.
static Result<std::vector<uint32_t>> readWindows(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"full_attention", "sliding_attention"}));
  uint32_t first = layers;
  if (types.empty() && config.has("sliding_window")) {
    MOERT_ASSIGN_OR_RETURN(first, config.integer("max_window_layers", 0, kMaxLayerNumber));
  }
  std::vector<uint32_t> windows(layers);
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (types.empty() ? layer < first : types[layer] == "full_attention")
      continue;
    MOERT_ASSIGN_OR_RETURN(windows[layer], config.integer("sliding_window", 1, kMaxWindow));
  }
  return windows;
}

Result<ModelDescription> describeDots1(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(config));
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe, readDeepSeekMoe(config, RouterScoring::kSigmoid));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedFromFirst(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(const std::vector<uint32_t> windows,
                         readWindows(config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.";
    addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kHead,
                 layer.attention);
    layer.attention.window = windows[number];
    return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
