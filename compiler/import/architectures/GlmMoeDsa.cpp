// GLM-5 and DeepSeek-V3.2: DeepSeek-V3's attention and router, with an indexer that chooses the
// tokens that are attended to. In GLM-5 some layers share the choice of an earlier one. The layer
// after the last one, for multi-token prediction, is not read. References: DeepSeek-V3.2 (arXiv
// 2512.02556), section 2.1; transformers, models/glm_moe_dsa/modular_glm_moe_dsa.py and
// models/deepseek_v32/modular_deepseek_v32.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/Indexers.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of GlmMoeDsaConfig.
constexpr ConfigKey kGlmRows[] = {
    {"vocab_size", "int", "154880"},
    {"hidden_size", "int", "6144"},
    {"intermediate_size", "int", "12288"},
    {"moe_intermediate_size", "int", "2048"},
    {"num_hidden_layers", "int", "78"},
    {"num_attention_heads", "int", "64"},
    {"num_key_value_heads", "int", "64"},
    {"n_shared_experts", "int", "1"},
    {"n_routed_experts", "int", "256", KeyEffect::kUsed, "num_local_experts"},
    {"routed_scaling_factor", "real", "2.5"},
    {"kv_lora_rank", "int", "512"},
    {"q_lora_rank", "int", "2048"},
    {"qk_rope_head_dim", "int", "64"},
    {"v_head_dim", "int", "256"},
    {"qk_nope_head_dim", "int", "192"},
    {"n_group", "int", "1"},
    {"topk_group", "int", "1"},
    {"num_experts_per_tok", "int", "8"},
    {"norm_topk_prob", "flag", "true"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "202752"},
    {"rms_norm_eps", "real", "1e-05"},
    {"bos_token_id", "any?", "0"},
    {"eos_token_id", "any?", "1"},
    {"tie_word_embeddings", "flag", "false"},
    {"mlp_layer_types", "list?", "null"},
    {"first_k_dense_replace", "int", "3"},
    {"index_topk", "int", "2048"},
    {"index_head_dim", "int", "128"},
    {"index_n_heads", "int", "32"},
    {"indexer_types", "list?", "null"},
    {"index_topk_pattern", "text?", "null"},
    {"index_topk_freq", "int", "1"},
    {"index_skip_topk_offset", "int", "2"},
    {"indexer_rope_interleave", "flag", "true", KeyEffect::kDefaultOnly},
    {"rope_interleave", "flag", "true", KeyEffect::kDefaultOnly},
    {"head_dim", "any", "64", KeyEffect::kNone},       // The class replaces it.
    {"layer_types", "any?", "null", KeyEffect::kNone}, // All are the same.
    {"num_experts", "int?", "null"},
    {"num_nextn_predict_layers", "any", "1", KeyEffect::kNone},
    {"scoring_func", "text", R"("sigmoid")", KeyEffect::kDefaultOnly},
    {"topk_method", "text", R"("noaux_tc")", KeyEffect::kDefaultOnly},
    {"moe_layer_freq", "int", "1", KeyEffect::kDefaultOnly},
};

const ConfigKeys kGlmMoeDsaKeys = kGlmRows;

/// The keys of DeepseekV32Config.
constexpr ConfigKey kDeepSeekRows[] = {
    {"vocab_size", "int", "129280"},
    {"hidden_size", "int", "7168"},
    {"intermediate_size", "int", "18432"},
    {"moe_intermediate_size", "int", "2048"},
    {"num_hidden_layers", "int", "61"},
    {"num_attention_heads", "int", "128"},
    {"num_key_value_heads", "int", "128"},
    {"n_shared_experts", "int", "1"},
    {"n_routed_experts", "int", "256", KeyEffect::kUsed, "num_local_experts"},
    {"routed_scaling_factor", "real", "2.5"},
    {"kv_lora_rank", "int", "512"},
    {"q_lora_rank", "int", "1536"},
    {"qk_rope_head_dim", "int", "64"},
    {"v_head_dim", "int", "128"},
    {"qk_nope_head_dim", "int", "128"},
    {"n_group", "int", "8"},
    {"topk_group", "int", "4"},
    {"num_experts_per_tok", "int", "8"},
    {"norm_topk_prob", "flag", "true"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "163840"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "0"},
    {"eos_token_id", "any?", "1"},
    {"tie_word_embeddings", "flag", "false"},
    {"mlp_layer_types", "list?", "null"},
    {"first_k_dense_replace", "int", "3"},
    {"index_topk", "int", "2048"},
    {"index_head_dim", "int", "128"},
    {"index_n_heads", "int", "64"},
    {"head_dim", "any", "64", KeyEffect::kNone},       // The class replaces it.
    {"layer_types", "any?", "null", KeyEffect::kNone}, // All are the same.
    {"num_experts", "int?", "null"},
    {"num_nextn_predict_layers", "any", "1", KeyEffect::kNone},
    {"scoring_func", "text", R"("sigmoid")", KeyEffect::kDefaultOnly},
    {"topk_method", "text", R"("noaux_tc")", KeyEffect::kDefaultOnly},
    {"moe_layer_freq", "int", "1", KeyEffect::kDefaultOnly},
};

const ConfigKeys kDeepSeekV32Keys = kDeepSeekRows;

/// indexerStyle: of the rotation of the indexer's queries and keys.
static Result<ModelDescription> describeSparse(const ArchitectureInput &input,
                                               const std::vector<bool> &isIndexed,
                                               RopeStyle indexerStyle) {
  const ConfigObject &config = input.config;
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  MOERT_ASSIGN_OR_RETURN(IndexerConfig indexer, readIndexer(config, attention.sharedDim));
  if (indexerStyle != decoder.rope.style) {
    MOERT_ASSIGN_OR_RETURN(RopeDescription rope, readRope(config, decoder.rope));
    decoder.ropes = {rope, std::move(rope)};
    decoder.ropes.back().style = indexerStyle;
    indexer.rope = 1;
  }
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe, readDeepSeekMoe(config, RouterScoring::kSigmoid));
  if (config.has("num_experts")) { // The class prefers it.
    MOERT_ASSIGN_OR_RETURN(const uint32_t experts, config.integer("num_experts", 1, kMaxExperts));
    if (experts != moe.routed.experts)
      return config.mismatch("num_experts", strCat("n_routed_experts, ", moe.routed.experts));
  }
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> byCount,
                         readRoutedFromFirst(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedTypes(config, byCount));
  return describeDecoder(
      input, decoder, [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
        const std::string module = prefix + "self_attn.";
        describeLatentAttention(decoder, attention, module, layer);
        layer.latentAttention->sharesChoice = !isIndexed[number];
        if (isIndexed[number])
          layer.latentAttention->indexer =
              describeIndexer(indexer, decoder, attention.queryRank, module + "indexer.");
        return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
      });
}

Result<ModelDescription> describeGlmMoeDsa(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const uint32_t layers,
                         input.config.integer("num_hidden_layers", 1, kMaxLayerNumber));
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> isIndexed,
                         readIndexed(input.config, std::vector<bool>(layers, true)));
  return describeSparse(input, isIndexed, RopeStyle::kInterleaved);
}

Result<ModelDescription> describeDeepSeekV32(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(const uint32_t layers,
                         input.config.integer("num_hidden_layers", 1, kMaxLayerNumber));
  return describeSparse(input, std::vector<bool>(layers, true), RopeStyle::kHalf);
}

} // namespace moec
