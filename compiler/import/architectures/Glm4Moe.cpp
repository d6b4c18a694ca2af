// GLM-4.5 and 4.6: a part of each head rotates, biases on queries, keys and values, optional norms
// per head, DeepSeek-V3's sigmoid router. The layer after the last one, for multi-token
// prediction, is not read. Reference: transformers, models/glm4_moe/modular_glm4_moe.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"

namespace moec {

using moert::Result;

/// The keys of Glm4MoeConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "151552"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "10944"},
    {"num_hidden_layers", "int", "46"},
    {"num_attention_heads", "int", "96"},
    {"num_key_value_heads", "int?", "8"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "131072"},
    {"rms_norm_eps", "real", "1e-05"},
    {"tie_word_embeddings", "flag", "false"},
    {"attention_bias", "flag", "false"},
    {"moe_intermediate_size", "int", "1408"},
    {"num_experts_per_tok", "int", "8"},
    {"n_shared_experts", "int", "1"},
    {"n_routed_experts", "int", "128", KeyEffect::kUsed, "num_local_experts"},
    {"routed_scaling_factor", "real", "1.0"},
    {"n_group", "int", "1"},
    {"topk_group", "int", "1"},
    {"first_k_dense_replace", "int", "1"},
    {"norm_topk_prob", "flag", "true"},
    {"use_qk_norm", "flag", "false"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"num_mtp_layers", "any", "1", KeyEffect::kNone, "num_nextn_predict_layers"},
    {"partial_rotary_factor", "real?", "0.5"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kGlm4MoeKeys = kRows;

Result<ModelDescription> describeGlm4Moe(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(config));
  MOERT_RETURN_IF_ERROR(setPartialRotation(config, decoder));
  decoder.outputBias = false;
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe, readDeepSeekMoe(config, RouterScoring::kSigmoid));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedFromFirst(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(const bool hasNorms, config.boolean("use_qk_norm"));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.";
    if (hasNorms)
      addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kHead,
                   layer.attention);
    return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
