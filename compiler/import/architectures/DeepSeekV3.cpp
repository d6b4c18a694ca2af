// DeepSeek-V3 and R1: latent attention, and a sigmoid router with a bias for the choice, within
// groups. The layer after the last one, for multi-token prediction, is not read. References:
// DeepSeek-V3 (arXiv 2412.19437), sections 2.1.1 and 2.1.2; transformers,
// models/deepseek_v3/modeling_deepseek_v3.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LatentAttention.h"

namespace moec {

using moert::Result;
using moert::strCat;

/// The keys of DeepseekV3Config.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "129280"},
    {"hidden_size", "int", "7168"},
    {"intermediate_size", "int", "18432"},
    {"moe_intermediate_size", "int", "2048"},
    {"num_hidden_layers", "int", "61"},
    {"num_attention_heads", "int", "128"},
    {"num_key_value_heads", "int?", "128"},
    {"n_shared_experts", "int", "1"},
    {"n_routed_experts", "int", "256", KeyEffect::kUsed, "num_local_experts"},
    {"routed_scaling_factor", "real", "2.5"},
    {"kv_lora_rank", "int", "512"},
    {"q_lora_rank", "int?", "1536"},
    {"qk_rope_head_dim", "int", "64"},
    {"v_head_dim", "int", "128"},
    {"qk_nope_head_dim", "int", "128"},
    {"n_group", "int", "8"},
    {"topk_group", "int", "4"},
    {"num_experts_per_tok", "int", "8"},
    {"first_k_dense_replace", "int", "3"},
    {"norm_topk_prob", "flag?", "true"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "4096"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "0"},
    {"eos_token_id", "any?", "1"},
    {"tie_word_embeddings", "flag", "false"},
    {"rope_interleave", "flag?", "true"},
    {"head_dim", "int?", "null"}, // Width of the rotation: transformers 5 writes it.
    {"num_mtp_layers", "any", "1", KeyEffect::kNone, "num_nextn_predict_layers"},
    {"scoring_func", "text", R"("sigmoid")", KeyEffect::kDefaultOnly},
    {"topk_method", "text", R"("noaux_tc")", KeyEffect::kDefaultOnly},
    {"moe_layer_freq", "int", "1", KeyEffect::kDefaultOnly},
};

const ConfigKeys kDeepSeekV3Keys = kRows;

Result<ModelDescription> describeDeepSeekV3(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  MOERT_ASSIGN_OR_RETURN(const bool interleaves, config.boolean("rope_interleave"));
  decoder.rope.style = interleaves ? RopeStyle::kInterleaved : RopeStyle::kHalf;
  if (config.has("head_dim")) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t dim, config.integer("head_dim", 1, kMaxHeadDim));
    if (dim != attention.sharedDim)
      return config.mismatch("head_dim", strCat("qk_rope_head_dim, ", attention.sharedDim));
  }
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe, readDeepSeekMoe(config, RouterScoring::kSigmoid));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedFromFirst(config, decoder.layerCount));
  return describeDecoder(
      input, decoder, [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
        describeLatentAttention(decoder, attention, prefix + "self_attn.", layer);
        return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
      });
}

} // namespace moec
