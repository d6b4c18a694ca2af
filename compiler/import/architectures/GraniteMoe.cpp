// Granite-MoE: four multipliers (embedding, attention scores, residual branches; logits are
// divided), experts fused in two tensors per layer, and a softmax over the chosen experts, which
// equals a softmax over all of them, renormalized. Reference: transformers,
// models/granitemoe/modeling_granitemoe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/Granite.h"

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of GraniteMoeConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "32000"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "11008"},
    {"num_hidden_layers", "int", "32"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "null"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "2048"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
    {"embedding_multiplier", "real", "1.0"},
    {"logits_scaling", "real", "1.0"},
    {"residual_multiplier", "real", "1.0"},
    {"attention_multiplier", "real", "1.0"},
    {"num_local_experts", "int", "8", KeyEffect::kUsed, "num_experts"},
    {"num_experts_per_tok", "int", "2"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kGraniteMoeKeys = kRows;

Result<GraniteConfig> readGranite(const ConfigObject &config) {
  GraniteConfig granite;
  RoutedConfig &routed = granite.routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_local_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(
      routed.topK, readTopK(config, "num_experts_per_tok", routed.experts, "num_local_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  MOERT_ASSIGN_OR_RETURN(granite.embedding, readMultiplier(config, "embedding_multiplier"));
  MOERT_ASSIGN_OR_RETURN(granite.attention, readMultiplier(config, "attention_multiplier"));
  MOERT_ASSIGN_OR_RETURN(granite.residual, readMultiplier(config, "residual_multiplier"));
  MOERT_ASSIGN_OR_RETURN(const double divisor,
                         config.real("logits_scaling", kLeastMultiplier, kMostMultiplier));
  granite.logits = static_cast<float>(1 / divisor);
  return granite;
}

MoeDescription graniteExperts(const GraniteConfig &granite, const DecoderConfig &decoder,
                              const std::string &module) {
  MoeDescription moe;
  moe.router = softmaxRouter(decoder, granite.routed, module + "router.layer.");
  moe.experts = fusedExperts(module + "input_linear.weight", module + "output_linear.weight",
                             {{}, decoder.hiddenSize, granite.routed.width, decoder.activation},
                             granite.routed.experts);
  return moe;
}

Result<ModelDescription> describeGranite(const ArchitectureInput &input,
                                         const GraniteConfig &granite, const DecoderConfig &decoder,
                                         const FillLayer &fillLayer) {
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.embeddingScale = granite.embedding;
  model.residualScale = granite.residual;
  model.logitsScale = granite.logits;
  return model;
}

Result<ModelDescription> describeGraniteMoe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(input.config));
  MOERT_ASSIGN_OR_RETURN(const GraniteConfig granite, readGranite(input.config));
  const auto fillLayer = [&](uint32_t, const std::string &prefix, LayerDescription &layer) {
    layer.attention.scale = granite.attention;
    layer.moe = graniteExperts(granite, decoder, prefix + "block_sparse_moe.");
    return Status();
  };
  return describeGranite(input, granite, decoder, fillLayer);
}

} // namespace moec
