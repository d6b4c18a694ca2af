// Phi-3.5-MoE: layer norms with biases, biases of the attention and of the head, Sparsemixer's two
// experts, and a rotation with other frequencies beyond the original length. The tolerance of the
// router, router_jitter_noise, is used at inference; input_jitter_noise only in training.
// Reference: transformers, models/phimoe/modeling_phimoe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of PhimoeConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "32064"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "6400"},
    {"num_hidden_layers", "int", "32"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "8"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "131072"},
    {"rms_norm_eps", "real", "1e-05"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"tie_word_embeddings", "flag", "false"},
    {"sliding_window", "int?", "null"},
    {"num_experts_per_tok", "int", "2"},
    {"num_local_experts", "int", "16", KeyEffect::kUsed, "num_experts"},
    {"router_jitter_noise", "real", "0.01"},
    {"input_jitter_noise", "any", "0.0", KeyEffect::kNone},
    {"attention_bias", "flag", "false"},
    {"lm_head_bias", "flag", "false"},
    {"rope_theta", "real", "1000000.0"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kPhiMoeKeys = kRows;

namespace {

struct PhiMoeConfig {
  RoutedConfig routed;
  float tolerance = 0;
  uint32_t window = 0;
  bool hasHeadBias = false;
};

Result<PhiMoeConfig> readPhiMoe(const ConfigObject &config, const DecoderConfig &decoder) {
  PhiMoeConfig phi;
  RoutedConfig &routed = phi.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_local_experts", 2, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(
      routed.topK, readTopK(config, "num_experts_per_tok", routed.experts, "num_local_experts"));
  if (routed.topK != 2)
    return config.mismatch("num_experts_per_tok", "2: Sparsemixer chooses two experts");
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(const double tolerance, config.real("router_jitter_noise", 0, 1e3));
  phi.tolerance = static_cast<float>(tolerance);
  MOERT_ASSIGN_OR_RETURN(phi.hasHeadBias, config.boolean("lm_head_bias"));
  if (config.has("sliding_window")) {
    MOERT_ASSIGN_OR_RETURN(phi.window, config.integer("sliding_window", 1, kMaxWindow));
    phi.window = phi.window < decoder.maxPositions ? phi.window : 0;
  }
  return phi;
}

void makeLayerNorm(NormDescription &norm, const std::string &prefix) {
  norm.kind = NormKind::kLayer;
  norm.bias = vectorSource(prefix + "bias", norm.weight.cols);
}

} // namespace

Result<ModelDescription> describePhiMoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(input.config));
  decoder.rope.isLong = true;
  MOERT_ASSIGN_OR_RETURN(const PhiMoeConfig phi, readPhiMoe(input.config, decoder));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    makeLayerNorm(*layer.attentionNorm, prefix + "input_layernorm.");
    makeLayerNorm(*layer.networkNorm, prefix + "post_attention_layernorm.");
    layer.attention.window = phi.window;
    MOERT_ASSIGN_OR_RETURN(layer.moe,
                           routedNetwork(input, decoder, phi.routed, prefix + "block_sparse_moe.",
                                         {"w1", "w3", "w2"}));
    layer.moe->router.scoring = RouterScoring::kSparsemixer;
    layer.moe->router.tolerance = phi.tolerance;
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  makeLayerNorm(model.finalNorm, "model.norm.");
  if (phi.hasHeadBias)
    addBias(model.head, "lm_head.");
  return model;
}

} // namespace moec
