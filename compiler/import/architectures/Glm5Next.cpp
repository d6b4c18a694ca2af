// GLM-5.3-Flash: hyper-connected residual streams, Kimi delta attention with bounded decays, and
// latent attention without rotation over pools of tokens that an indexer chooses; DeepSeek-V3's
// router. Published checkpoints have a vision tower too (model.visual.*) and keep the text's config
// under text_config and its tensors under model.language_model. Reference: transformers,
// models/glm5_next/modular_glm5_next.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/Indexers.h"
#include "compiler/import/architectures/KimiDelta.h"
#include "compiler/import/architectures/Streams.h"

namespace moec {

using moert::Result;
using moert::strCat;

/// The keys of Glm5NextTextConfig, and those of published files.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "154880"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "12288"},
    {"moe_intermediate_size", "int", "2048"},
    {"num_hidden_layers", "int", "45"},
    {"num_attention_heads", "int", "64"},
    {"num_key_value_heads", "int", "64"},
    {"n_shared_experts", "int", "1"},
    {"n_routed_experts", "int", "288", KeyEffect::kUsed, "num_local_experts"},
    {"routed_scaling_factor", "real", "2.5"},
    {"kv_lora_rank", "int", "512"},
    {"q_lora_rank", "int", "1536"},
    {"qk_rope_head_dim", "int", "0"},
    {"v_head_dim", "int", "256"},
    {"qk_nope_head_dim", "int", "256"},
    {"n_group", "int", "1"},
    {"topk_group", "int", "1"},
    {"num_experts_per_tok", "int", "8"},
    {"norm_topk_prob", "flag", "true"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "1048576"},
    {"rms_norm_eps", "real", "1e-05"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"tie_word_embeddings", "flag", "false", KeyEffect::kNone}, // The outer one counts.
    {"mlp_layer_types", "list?", "null"},
    {"first_k_dense_replace", "int", "3"},
    {"layer_types", "list?", "null"},
    {"index_topk", "int", "2048"},
    {"index_head_dim", "int", "128"},
    {"index_n_heads", "int", "32"},
    {"index_kpool", "int", "16"},
    {"index_kpool_always_select_tail", "flag", "true", KeyEffect::kDefaultOnly},
    {"indexer_types", "list?", "null"},
    {"index_topk_pattern", "text?", "null"},
    {"index_topk_freq", "int", "1"},
    {"index_skip_topk_offset", "int", "2"},
    {"swiglu_limit", "real", "10.0"},
    {"linear_attn_config", "object?", "null"},
    {"linear_head_dim", "int", "128"},
    {"linear_num_heads", "int", "64"},
    {"linear_conv_kernel_dim", "int", "4"},
    {"linear_lower_bound", "real?", "-5.0"},
    {"hc_mult", "int", "4"},
    {"hc_eps", "real", "1e-06"},
    {"hc_sinkhorn_iters", "int", "20"},
    {"head_dim", "any", "0", KeyEffect::kNone}, // The class replaces it.
    {"num_nextn_predict_layers", "any", "1", KeyEffect::kNone},
    {"scoring_func", "text", R"("sigmoid")", KeyEffect::kDefaultOnly},
    {"topk_method", "text", R"("noaux_tc")", KeyEffect::kDefaultOnly},
};

const ConfigKeys kGlm5NextTextKeys = kRows;

/// The keys of Glm5NextConfig.
constexpr ConfigKey kOuterRows[] = {
    {"text_config", "object", "null"},
    {"vision_config", "any", "null", KeyEffect::kNone},
    {"image_token_id", "any", "154854", KeyEffect::kNone},
    {"video_token_id", "any", "154855", KeyEffect::kNone},
    {"image_start_token_id", "any", "154830", KeyEffect::kNone},
    {"image_end_token_id", "any", "154831", KeyEffect::kNone},
    {"video_start_token_id", "any", "154832", KeyEffect::kNone},
    {"video_end_token_id", "any", "154833", KeyEffect::kNone},
    {"tie_word_embeddings", "flag", "false"},
};

const ConfigKeys kGlm5NextKeys = kOuterRows;

namespace {

/// Which layers have latent attention; the others have Kimi delta attention.
Result<std::vector<bool>> readMixers(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(
      const std::vector<std::string> types,
      readLayerTypes(config, layers, {"linear_attention", "full_attention", "indexed_attention"}));
  std::vector<bool> hasAttention(layers);
  for (uint32_t layer = 0; layer < layers; ++layer)
    hasAttention[layer] = types.empty() ? layer % 4 == 3 : types[layer] != "linear_attention";
  return hasAttention;
}

/// By linear_attn_config, and by the keys outside of it where that lacks one.
Result<KimiDeltaConfig> readDelta(const ConfigObject &config) {
  constexpr double kMostBound = -1e-3, kLeastBound = -1e3;
  KimiDeltaConfig delta;
  delta.isLowRank = true;
  MOERT_ASSIGN_OR_RETURN(delta.heads, config.integer("linear_num_heads", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(delta.headDim, config.integer("linear_head_dim", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(delta.taps, config.integer("linear_conv_kernel_dim", 2, kMaxTaps));
  const auto readBound = [&](const ConfigObject &holder, std::string_view key) -> moert::Status {
    MOERT_ASSIGN_OR_RETURN(const double bound, holder.real(key, kLeastBound, kMostBound));
    delta.bound = static_cast<float>(bound);
    return {};
  };
  if (config.has("linear_lower_bound"))
    MOERT_RETURN_IF_ERROR(readBound(config, "linear_lower_bound"));
  const char *const objectKey = "linear_attn_config";
  if (!config.has(objectKey)) {
    MOERT_RETURN_IF_ERROR(checkKimiDelta(config, "linear_head_dim", delta));
    return delta;
  }
  MOERT_ASSIGN_OR_RETURN(const ConfigObject own, config.object(objectKey));
  MOERT_ASSIGN_OR_RETURN(delta.heads, own.integer("num_heads", 1, kMaxHeads, delta.heads));
  MOERT_ASSIGN_OR_RETURN(delta.headDim, own.integer("head_dim", 1, kMaxHeadDim, delta.headDim));
  MOERT_ASSIGN_OR_RETURN(delta.taps,
                         own.integer("short_conv_kernel_size", 2, kMaxTaps, delta.taps));
  MOERT_ASSIGN_OR_RETURN(const bool isBounded, own.boolean("safe_gate", true));
  if (own.has("gate_lower_bound"))
    MOERT_RETURN_IF_ERROR(readBound(own, "gate_lower_bound"));
  else if (own.contains("gate_lower_bound"))
    delta.bound = std::nullopt;
  if (isBounded && !delta.bound)
    delta.bound = -5.0f;
  MOERT_RETURN_IF_ERROR(checkKimiDelta(own, "head_dim", delta));
  return delta;
}

/// The pools of an indexer that chooses so many tokens; `most` becomes the number of pools.
Result<uint32_t> readPools(const ConfigObject &config, IndexerConfig &indexer) {
  MOERT_ASSIGN_OR_RETURN(const uint32_t tokens, config.integer("index_kpool", 1, kMaxWidth));
  if (indexer.most % tokens != 0)
    return config.mismatch("index_topk", strCat("a multiple of index_kpool, ", tokens));
  indexer.most /= tokens;
  indexer.rope.reset();
  return tokens;
}

PoolDescription describePool(const DecoderConfig &decoder, const IndexerConfig &indexer,
                             uint32_t tokens, const std::string &module) {
  PoolDescription pool;
  pool.tokens = tokens;
  pool.gate.emplace().weight =
      matrixSource(module + "index_kpool_compress_gate", indexer.headDim, decoder.hiddenSize);
  pool.bias = vectorSource(module + "index_kpool_compress_ape", tokens * indexer.headDim);
  pool.bias.stackedVectors = tokens;
  return pool;
}

} // namespace

Result<ModelDescription> describeGlm5Next(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  attention.hasShared = false;
  attention.latentEpsilon = std::nullopt;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  MOERT_ASSIGN_OR_RETURN(decoder.tiedHead, input.outer->boolean("tie_word_embeddings"));
  MOERT_ASSIGN_OR_RETURN(decoder.activation, readClampedSilu(config));
  decoder.prefix = "model.language_model.";
  MOERT_ASSIGN_OR_RETURN(StreamsDescription streams, readStreams(config, decoder));
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> hasAttention,
                         readMixers(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> isIndexed, readIndexed(config, hasAttention));
  MOERT_ASSIGN_OR_RETURN(const KimiDeltaConfig delta, readDelta(config));
  MOERT_ASSIGN_OR_RETURN(IndexerConfig indexer, readIndexer(config, 0));
  MOERT_ASSIGN_OR_RETURN(const uint32_t poolTokens, readPools(config, indexer));
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe, readDeepSeekMoe(config, RouterScoring::kSigmoid));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedFromFirst(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedTypes(config, moe.isRouted));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string mixer = prefix + "self_attn.";
    describeStreams(decoder, streams, prefix, layer);
    if (hasAttention[number])
      describeLatentAttention(decoder, attention, mixer, layer);
    else
      describeKimiDelta(decoder, delta, mixer, "o_proj.", layer);
    if (hasAttention[number] && isIndexed[number]) {
      const std::string module = mixer + "indexer.";
      layer.latentAttention->indexer =
          describeIndexer(indexer, decoder, attention.queryRank, module);
      layer.latentAttention->indexer->pool = describePool(decoder, indexer, poolTokens, module);
    } else if (hasAttention[number]) {
      layer.latentAttention->sharesChoice = true;
    }
    return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.streams = std::move(streams);
  model.ropes.clear();
  model.modelType = "glm5_next";
  for (const char *part : {"model.visual.", "mtp."})
    model.otherParts.emplace_back(part);
  return model;
}

} // namespace moec
