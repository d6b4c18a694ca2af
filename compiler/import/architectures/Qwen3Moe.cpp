// Qwen3-MoE: as Qwen2-MoE without biases and shared expert, with a norm per head of queries and
// keys before the rotary embedding, and an explicit head_dim. Reference: transformers,
// models/qwen3_moe/modular_qwen3_moe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

#include <algorithm>

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of Qwen3MoeConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "151936"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "6144"},
    {"num_hidden_layers", "int", "24"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "4"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "32768"},
    {"rms_norm_eps", "real", "1e-06"},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
    {"use_sliding_window", "flag", "false"},
    {"sliding_window", "int?", "4096"},
    {"decoder_sparse_step", "int", "1"},
    {"moe_intermediate_size", "int", "768"},
    {"num_experts_per_tok", "int", "8"},
    {"num_experts", "int", "128", KeyEffect::kUsed, "num_local_experts"},
    {"norm_topk_prob", "flag", "false"},
    {"mlp_only_layers", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kQwen3MoeKeys = kRows;

namespace {

struct Qwen3MoeConfig {
  RoutedConfig routed;
  uint32_t denseWidth = 0;
  uint32_t window = 0;
  std::vector<bool> isRouted; // Per layer.
};

Result<Qwen3MoeConfig> readQwen3Moe(const ConfigObject &config, uint32_t layers) {
  Qwen3MoeConfig qwen;
  RoutedConfig &routed = qwen.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob"));
  MOERT_ASSIGN_OR_RETURN(qwen.isRouted, readRoutedLayers(config, layers));
  if (std::find(qwen.isRouted.begin(), qwen.isRouted.end(), false) != qwen.isRouted.end()) {
    MOERT_ASSIGN_OR_RETURN(qwen.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  }
  // The window is that of all layers, unlike in Qwen2-MoE.
  MOERT_ASSIGN_OR_RETURN(const bool useWindow, config.boolean("use_sliding_window"));
  const bool isNull = config.contains("sliding_window") && !config.has("sliding_window");
  if (useWindow && !isNull) {
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
