// GLM-4.7-Flash: DeepSeek-V3's attention and router. The layer after the last one, for multi-token
// prediction, is not read. Reference: transformers,
// models/glm4_moe_lite/modular_glm4_moe_lite.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LatentAttention.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of Glm4MoeLiteConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "154880"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "10240"},
    {"moe_intermediate_size", "int", "1536"},
    {"num_hidden_layers", "int", "47"},
    {"num_attention_heads", "int", "20"},
    {"num_key_value_heads", "int?", "20"},
    {"n_shared_experts", "int", "1"},
    {"n_routed_experts", "int", "64", KeyEffect::kUsed, "num_local_experts"},
    {"routed_scaling_factor", "real", "1.8"},
    {"kv_lora_rank", "int", "512"},
    {"q_lora_rank", "int?", "768"},
    {"qk_rope_head_dim", "int", "64", KeyEffect::kUsed, "head_dim"},
    {"v_head_dim", "int", "256"},
    {"qk_nope_head_dim", "int", "192"},
    {"n_group", "int", "1"},
    {"topk_group", "int", "1"},
    {"num_experts_per_tok", "int", "4"},
    {"norm_topk_prob", "flag", "true"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "202752"},
    {"rms_norm_eps", "real", "1e-05"},
    {"bos_token_id", "any?", "0"},
    {"eos_token_id", "any?", "1"},
    {"tie_word_embeddings", "flag", "false"},
    {"rope_interleave", "flag", "true"},
    {"mlp_layer_types", "list?", "null"},
    {"scoring_func", "text", R"("sigmoid")", KeyEffect::kDefaultOnly},
    {"topk_method", "text", R"("noaux_tc")", KeyEffect::kDefaultOnly},
    {"moe_layer_freq", "int", "1", KeyEffect::kDefaultOnly},
    {"first_k_dense_replace", "int?", "null"},
};

const ConfigKeys kGlm4MoeLiteKeys = kRows;

/// Which layers are routed: mlp_layer_types in the files of transformers 5, first_k_dense_replace
/// in published ones. The class has no such key, but always one dense layer.
static Result<std::vector<bool>> readRouted(const ConfigObject &config, uint32_t layers) {
  std::vector<bool> byCount(layers, true);
  byCount[0] = false;
  if (config.has("first_k_dense_replace")) {
    MOERT_ASSIGN_OR_RETURN(byCount, readRoutedFromFirst(config, layers));
  }
  return readRoutedTypes(config, std::move(byCount));
}

Result<ModelDescription> describeGlm4MoeLite(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  MOERT_ASSIGN_OR_RETURN(const bool interleaves, config.boolean("rope_interleave"));
  decoder.rope.style = interleaves ? RopeStyle::kInterleaved : RopeStyle::kHalf;
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe, readDeepSeekMoe(config, RouterScoring::kSigmoid));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRouted(config, decoder.layerCount));
  return describeDecoder(
      input, decoder, [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
        describeLatentAttention(decoder, attention, prefix + "self_attn.", layer);
        return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
      });
}

} // namespace moec
