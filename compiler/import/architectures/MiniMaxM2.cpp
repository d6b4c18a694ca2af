// MiniMax-M2: norms over the whole projections, a part of each head rotates, a sigmoid router with
// a bias for the choice, Mixtral's names. Reference: transformers,
// models/minimax_m2/modular_minimax_m2.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of MiniMaxM2Config.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "200064"},
    {"hidden_size", "int", "3072"},
    {"intermediate_size", "int", "1536"},
    {"num_hidden_layers", "int", "62"},
    {"num_attention_heads", "int", "48"},
    {"num_key_value_heads", "int?", "8"},
    {"head_dim", "int?", "128"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "196608"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "200034"},
    {"eos_token_id", "any?", "200020"},
    {"tie_word_embeddings", "flag", "false"},
    {"num_experts_per_tok", "int", "8"},
    {"num_local_experts", "int", "256", KeyEffect::kUsed, "num_experts"},
    {"router_jitter_noise", "any", "0.0", KeyEffect::kNone},
    {"rope_theta", "real", "5000000.0"},
    {"rotary_dim", "int?", "null"},
    {"sliding_window", "int?", "null", KeyEffect::kDefaultOnly},
};

const ConfigKeys kMiniMaxM2Keys = kRows;

namespace {

Result<RoutedConfig> readMiniMax(const ConfigObject &config) {
  RoutedConfig routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_local_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(
      routed.topK, readTopK(config, "num_experts_per_tok", routed.experts, "num_local_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  return routed;
}

/// partial_rotary_factor, which published files have as a number of elements, rotary_dim.
Status setRotation(const ConfigObject &config, DecoderConfig &decoder) {
  std::optional<double> part;
  if (config.has("rotary_dim")) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t dim, config.integer("rotary_dim", 2, decoder.headDim));
    if (dim % 2 != 0)
      return config.mismatch("rotary_dim", "an even number");
    part = static_cast<double>(dim) / decoder.headDim;
  }
  return setPartialRotation(config, decoder, part);
}

} // namespace

Result<ModelDescription> describeMiniMaxM2(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_RETURN_IF_ERROR(setRotation(input.config, decoder));
  MOERT_ASSIGN_OR_RETURN(const RoutedConfig routed, readMiniMax(input.config));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "block_sparse_moe.";
    addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kAllHeads,
                 layer.attention);
    MOERT_ASSIGN_OR_RETURN(layer.moe,
                           routedNetwork(input, decoder, routed, module, {"w1", "w3", "w2"}));
    layer.moe->router.scoring = RouterScoring::kSigmoid;
    layer.moe->router.choiceBias = vectorSource(module + "e_score_correction_bias", routed.experts);
    return Status();
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
