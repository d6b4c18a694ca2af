// Mixtral: all layers are routed, softmax then top-k, weights renormalized. The sliding window
// applies whenever it is not null, as in transformers (the first upload of 8x7B sets it to 4096,
// and uses it).
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of MixtralConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "32000"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "14336"},
    {"num_hidden_layers", "int", "32"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "8"},
    {"head_dim", "int?", "null"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "131072"},
    {"rms_norm_eps", "real", "1e-05"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"tie_word_embeddings", "flag", "false"},
    {"sliding_window", "int?", "null"},
    {"num_experts_per_tok", "int", "2"},
    {"num_local_experts", "int", "8", KeyEffect::kUsed, "num_experts"},
    {"router_jitter_noise", "any", "0.0", KeyEffect::kNone},
    {"rope_theta", "real", "1000000.0"},
};

const ConfigKeys kMixtralKeys = kRows;

namespace {

struct MixtralConfig {
  RoutedConfig routed;
  uint32_t window = 0;
};

Result<MixtralConfig> readMixtral(const ConfigObject &config) {
  MixtralConfig mixtral;
  RoutedConfig &routed = mixtral.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_local_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(
      routed.topK, readTopK(config, "num_experts_per_tok", routed.experts, "num_local_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  if (config.has("sliding_window")) {
    MOERT_ASSIGN_OR_RETURN(mixtral.window, config.integer("sliding_window", 1, kMaxWindow));
  }
  return mixtral;
}

} // namespace

Result<ModelDescription> describeMixtral(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const MixtralConfig mixtral, readMixtral(input.config));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    layer.attention.window = mixtral.window;
    MOERT_ASSIGN_OR_RETURN(layer.moe,
                           routedNetwork(input, decoder, mixtral.routed,
                                         prefix + "block_sparse_moe.", {"w1", "w3", "w2"}));
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
