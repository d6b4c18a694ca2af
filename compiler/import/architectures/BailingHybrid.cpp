// Ling 3 (bailing_hybrid): Kimi delta attention with bounded decays, one latent attention with a
// gate per head in each group of layers, and DeepSeek-V3's router. The layers after the last one,
// for multi-token prediction, are not read. Reference: transformers,
// models/bailing_hybrid/modular_bailing_hybrid.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/KimiDelta.h"
#include "compiler/import/architectures/LatentAttention.h"

namespace moec {

using moert::Result;

/// The keys of BailingHybridConfig, and those of published files.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "157184"},
    {"hidden_size", "int", "2560"},
    {"intermediate_size", "int", "6144"},
    {"moe_intermediate_size", "int", "768"},
    {"num_hidden_layers", "int", "42"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "32"},
    {"n_shared_experts", "int", "1", KeyEffect::kUsed, "num_shared_experts"},
    {"num_experts", "int", "512", KeyEffect::kUsed, "num_local_experts"},
    {"num_experts_per_tok", "int", "8", KeyEffect::kUsed, "num_experts_per_token"},
    {"routed_scaling_factor", "real", "2.5"},
    {"norm_topk_prob", "flag", "true", KeyEffect::kUsed, "moe_renormalize"},
    {"n_group", "int", "8", KeyEffect::kUsed, "num_expert_group"},
    {"topk_group", "int", "4"},
    {"first_k_dense_replace", "int", "2"},
    {"mlp_layer_types", "list?", "null"},
    {"kv_lora_rank", "int", "512"},
    {"q_lora_rank", "int?", "null"},
    {"qk_rope_head_dim", "int", "64"},
    {"v_head_dim", "int", "128"},
    {"qk_nope_head_dim", "int", "128"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "262144", KeyEffect::kUsed, "model_max_length"},
    {"rms_norm_eps", "real", "1e-06"},
    {"rope_theta", "real", "6000000.0"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "156895"},
    {"tie_word_embeddings", "flag", "false"},
    {"head_dim", "int", "128"},
    {"short_conv_kernel_size", "int", "4"},
    {"layer_group_size", "int", "6"},
    {"layer_types", "list?", "null"},
    {"kda_safe_gate", "flag", "true"},
    {"kda_lower_bound", "real", "-5.0"},
    {"linear_head_dim", "any", "null", KeyEffect::kNone}, // These three follow from other keys.
    {"linear_num_heads", "any", "null", KeyEffect::kNone},
    {"linear_conv_kernel_dim", "any", "null", KeyEffect::kNone},
    {"num_mtp_layers", "any", "1", KeyEffect::kNone, "num_nextn_predict_layers"},
    {"mtp_loss_scaling_factor", "any", "0.0", KeyEffect::kNone},
    {"moe_router_enable_expert_bias", "flag", "true", KeyEffect::kDefaultOnly},
    {"score_function", "text", R"("sigmoid")", KeyEffect::kDefaultOnly},
};

const ConfigKeys kBailingHybridKeys = kRows;

namespace {

/// Which layers have Kimi delta attention.
Result<std::vector<bool>> readMixers(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"linear_attention", "full_attention"}));
  MOERT_ASSIGN_OR_RETURN(const uint32_t group,
                         config.integer("layer_group_size", 1, kMaxLayerNumber));
  std::vector<bool> isDelta(layers);
  for (uint32_t layer = 0; layer < layers; ++layer)
    isDelta[layer] = types.empty() ? (layer + 1) % group != 0 : types[layer] == "linear_attention";
  return isDelta;
}

Result<KimiDeltaConfig> readDelta(const ConfigObject &config, uint32_t heads) {
  constexpr double kMostBound = -1e-3, kLeastBound = -1e3;
  KimiDeltaConfig delta;
  delta.heads = heads;
  MOERT_ASSIGN_OR_RETURN(delta.headDim, config.integer("head_dim", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(delta.taps, config.integer("short_conv_kernel_size", 2, kMaxTaps));
  MOERT_ASSIGN_OR_RETURN(const bool isBounded, config.boolean("kda_safe_gate"));
  if (isBounded) {
    MOERT_ASSIGN_OR_RETURN(const double bound,
                           config.real("kda_lower_bound", kLeastBound, kMostBound));
    delta.bound = static_cast<float>(bound);
  }
  MOERT_RETURN_IF_ERROR(checkKimiDelta(config, "head_dim", delta));
  return delta;
}

} // namespace

Result<ModelDescription> describeBailingHybrid(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  decoder.embedding = "word_embeddings";
  MOERT_ASSIGN_OR_RETURN(const KimiDeltaConfig delta, readDelta(config, decoder.heads));
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> isDelta, readMixers(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSigmoid, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedFromFirst(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedTypes(config, moe.isRouted));
  moe.choiceBias = "expert_bias";
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string mixer = prefix + "attention.";
    if (isDelta[number]) {
      describeKimiDelta(decoder, delta, mixer, "dense.", layer);
    } else {
      describeLatentAttention(decoder, attention, mixer, layer);
      layer.latentAttention->gate =
          linearLayer(mixer + "g_proj.", decoder.heads, decoder.hiddenSize);
      layer.latentAttention->output.weight.tensor = mixer + "dense.weight";
    }
    return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
