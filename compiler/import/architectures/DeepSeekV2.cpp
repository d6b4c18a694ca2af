// DeepSeek-V2 and V2-Lite: latent attention, softmax then top-k, of the full model within groups.
// References: DeepSeek-V2 (arXiv 2405.04434), sections 2.1 and 2.1.2; transformers,
// models/deepseek_v2/modular_deepseek_v2.py; the models' remote code.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LatentAttention.h"

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of DeepseekV2Config.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "102400"},
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
    {"head_dim", "any", "null", KeyEffect::kNone},
    {"first_k_dense_replace", "int", "0"},
    {"kv_lora_rank", "int", "512"},
    {"q_lora_rank", "int?", "1536"},
    {"n_group", "int?", "null"},
    {"n_routed_experts", "int", "64", KeyEffect::kUsed, "num_experts"},
    {"n_shared_experts", "int", "2"},
    {"qk_nope_head_dim", "int", "128"},
    {"qk_rope_head_dim", "int", "64"},
    {"routed_scaling_factor", "real", "1.0"},
    {"topk_group", "int?", "null"},
    {"topk_method", "text", R"("greedy")"},
    {"norm_topk_prob", "flag?", "false", KeyEffect::kDefaultOnly},
    {"v_head_dim", "int", "128"},
    {"num_experts_per_tok", "int", "null"},
    {"moe_intermediate_size", "int", "1407"},
    {"scoring_func", "text", R"("softmax")", KeyEffect::kDefaultOnly},
    {"moe_layer_freq", "int", "1", KeyEffect::kDefaultOnly},
};

const ConfigKeys kDeepSeekV2Keys = kRows;

/// Whether experts compete within groups.
static Result<bool> readGrouped(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(const std::string method, config.string("topk_method"));
  if (method != "greedy" && method != "group_limited_greedy")
    return config.mismatch("topk_method", "greedy or group_limited_greedy");
  return method == "group_limited_greedy";
}

Result<ModelDescription> describeDeepSeekV2(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  MOERT_ASSIGN_OR_RETURN(const bool isGrouped, readGrouped(config));
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSoftmaxThenTopK));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedFromFirst(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(moe.weightScale, readMultiplier(config, "routed_scaling_factor"));
  if (isGrouped)
    MOERT_RETURN_IF_ERROR(readGroups(config, moe));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix,
                             LayerDescription &layer) -> Status {
    describeLatentAttention(decoder, attention, prefix + "self_attn.", layer);
    MOERT_RETURN_IF_ERROR(
        describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer));
    if (layer.moe && isGrouped) {
      layer.moe->router.groups = moe.groups;
      layer.moe->router.keptGroups = moe.keptGroups;
      layer.moe->router.groupScore = moert::GroupScore::kLargest;
    }
    return {};
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
