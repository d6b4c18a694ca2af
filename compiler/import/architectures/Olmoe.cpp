// OLMoE: norms over the whole projection of queries and of keys, then an optional clamp of queries,
// keys and values; router weights are not renormalized unless the config says so. Its
// intermediate_size is the width of an expert. Reference: transformers,
// models/olmoe/modeling_olmoe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of OlmoeConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "50304"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "2048"},
    {"num_hidden_layers", "int", "16"},
    {"num_attention_heads", "int", "16"},
    {"num_key_value_heads", "int?", "null"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "4096"},
    {"rms_norm_eps", "real", "1e-05"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "50279"},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
    {"sliding_window", "any", "null", KeyEffect::kNone}, // For kernels that take it; masks do not.
    {"clip_qkv", "real?", "null"},
    {"num_experts_per_tok", "int", "8"},
    {"num_experts", "int", "64", KeyEffect::kUsed, "num_local_experts"},
    {"norm_topk_prob", "flag", "false"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kOlmoeKeys = kRows;

namespace {

constexpr double kMostClip = 1e6;

struct OlmoeConfig {
  RoutedConfig routed;
  std::optional<float> clip;
};

Result<OlmoeConfig> readOlmoe(const ConfigObject &config) {
  OlmoeConfig olmoe;
  RoutedConfig &routed = olmoe.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(routed.renormalize, config.boolean("norm_topk_prob"));
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
