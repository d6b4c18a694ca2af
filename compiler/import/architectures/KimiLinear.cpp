// Kimi Linear: three Kimi delta attentions to one latent attention without rotation, and
// DeepSeek-V3's router. Layers for multi-token prediction are not read. Reference: transformers,
// models/kimi_linear/modular_kimi_linear.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/KimiDelta.h"
#include "compiler/import/architectures/LatentAttention.h"

#include <cmath>

namespace moec {

using moert::Result;
using moert::strCat;

/// The keys of KimiLinearConfig, and those of published files.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "163840"},
    {"hidden_size", "int", "2304"},
    {"intermediate_size", "int", "9216"},
    {"moe_intermediate_size", "int", "1024"},
    {"num_hidden_layers", "int", "27"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "32"},
    {"n_shared_experts", "int", "1", KeyEffect::kUsed, "num_shared_experts"},
    {"num_experts", "int", "256", KeyEffect::kUsed, "num_local_experts"},
    {"num_experts_per_tok", "int", "8", KeyEffect::kUsed, "num_experts_per_token"},
    {"routed_scaling_factor", "real", "2.446"},
    {"norm_topk_prob", "flag", "true", KeyEffect::kUsed, "moe_renormalize"},
    {"n_group", "int", "1", KeyEffect::kUsed, "num_expert_group"},
    {"topk_group", "int", "1"},
    {"first_k_dense_replace", "int", "1"},
    {"mlp_layer_types", "list?", "null"},
    {"kv_lora_rank", "int", "512"},
    {"q_lora_rank", "int?", "null"},
    {"qk_rope_head_dim", "int", "64"},
    {"v_head_dim", "int", "128"},
    {"qk_nope_head_dim", "int", "128"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "1048576", KeyEffect::kUsed, "model_max_length"},
    {"rms_norm_eps", "real", "1e-05"},
    {"bos_token_id", "any?", "163584"},
    {"eos_token_id", "any?", "163586"},
    {"tie_word_embeddings", "flag", "false"},
    {"layer_types", "list?", "null"},
    {"linear_head_dim", "int", "128"},
    {"linear_num_heads", "int", "32"},
    {"linear_conv_kernel_dim", "int", "4"},
    {"linear_attn_config", "object?", "null"},
    {"head_dim", "any", "null", KeyEffect::kNone},
    {"num_nextn_predict_layers", "any", "0", KeyEffect::kNone},
    {"mla_use_nope", "flag", "true", KeyEffect::kDefaultOnly},
    {"moe_layer_freq", "int", "1", KeyEffect::kDefaultOnly},
    {"moe_router_activation_func", "text", R"("sigmoid")", KeyEffect::kDefaultOnly},
    {"use_grouped_topk", "flag", "true", KeyEffect::kDefaultOnly},
};

const ConfigKeys kKimiLinearKeys = kRows;

namespace {

constexpr const char *kObjectKey = "linear_attn_config";

/// The two lists of linear_attn_config, which count layers from 1; empty without them.
Result<std::vector<bool>> readListedLayers(const ConfigObject &lists, uint32_t layers) {
  const char *const fullKey = "full_attn_layers", *const deltaKey = "kda_layers";
  if (!lists.has(fullKey) || !lists.has(deltaKey))
    return std::vector<bool>();
  MOERT_ASSIGN_OR_RETURN(const auto full, lists.integers(fullKey, 1, layers));
  MOERT_ASSIGN_OR_RETURN(const auto delta, lists.integers(deltaKey, 1, layers));
  std::vector<uint32_t> counts(layers);
  std::vector<bool> isDelta(layers);
  for (const uint32_t layer : full)
    ++counts[layer - 1];
  for (const uint32_t layer : delta)
    ++counts[layer - 1], isDelta[layer - 1] = true;
  for (const uint32_t count : counts)
    if (count != 1)
      return lists.mismatch(
          deltaKey, strCat("each layer from 1 to ", layers, " once, in it or in ", fullKey));
  return isDelta;
}

/// Which layers have Kimi delta attention.
Result<std::vector<bool>> readMixers(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const std::vector<std::string> types,
                         readLayerTypes(config, layers, {"linear_attention", "full_attention"}));
  std::vector<bool> isDelta;
  if (types.empty() && config.has(kObjectKey)) {
    MOERT_ASSIGN_OR_RETURN(const ConfigObject lists, config.object(kObjectKey));
    MOERT_ASSIGN_OR_RETURN(isDelta, readListedLayers(lists, layers));
  }
  if (isDelta.empty())
    for (uint32_t layer = 0; layer < layers; ++layer)
      isDelta.push_back(types.empty() ? layer == 0 || layer % 4 != 0
                                      : types[layer] == "linear_attention");
  return isDelta;
}

Result<KimiDeltaConfig> readDelta(const ConfigObject &config) {
  KimiDeltaConfig delta;
  delta.isLowRank = true;
  MOERT_ASSIGN_OR_RETURN(delta.heads, config.integer("linear_num_heads", 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(delta.headDim, config.integer("linear_head_dim", 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(delta.taps, config.integer("linear_conv_kernel_dim", 2, kMaxTaps));
  if (!config.has(kObjectKey)) {
    MOERT_RETURN_IF_ERROR(checkKimiDelta(config, "linear_head_dim", delta));
    return delta;
  }
  MOERT_ASSIGN_OR_RETURN(const ConfigObject own, config.object(kObjectKey));
  MOERT_ASSIGN_OR_RETURN(delta.heads, own.integer("num_heads", 1, kMaxHeads, delta.heads));
  MOERT_ASSIGN_OR_RETURN(delta.headDim, own.integer("head_dim", 1, kMaxHeadDim, delta.headDim));
  MOERT_ASSIGN_OR_RETURN(delta.taps,
                         own.integer("short_conv_kernel_size", 2, kMaxTaps, delta.taps));
  MOERT_RETURN_IF_ERROR(checkKimiDelta(own, "head_dim", delta));
  return delta;
}

} // namespace

Result<ModelDescription> describeKimiLinear(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  // Without the factor of a rotation.
  attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(decoder.headDim)));
  MOERT_ASSIGN_OR_RETURN(const KimiDeltaConfig delta, readDelta(config));
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> isDelta, readMixers(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSigmoid, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedFromFirst(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedTypes(config, moe.isRouted));
  moe.expertNames = {"w1", "w3", "w2"};
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string mixer = prefix + "self_attn.";
    if (isDelta[number]) {
      describeKimiDelta(decoder, delta, mixer, "o_proj.", layer);
    } else {
      describeLatentAttention(decoder, attention, mixer, layer);
      layer.latentAttention->rope.reset();
    }
    return describeDeepSeekNetwork(input, moe, decoder, number,
                                   prefix + (moe.isRouted[number] ? "block_sparse_moe." : "mlp."),
                                   layer);
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
