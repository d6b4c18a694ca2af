// Mistral Small 4: DeepSeek-V3's attention, whose queries grow with the position, and a softmax
// router within groups. Config and tensors are those of the whole model, whose vision parts are not
// read, or of the text model alone. References: transformers, models/mistral4/modular_mistral4.py
// and models/mistral3/modeling_mistral3.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LatentAttention.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

/// The keys of Mistral4Config.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "131072"},
    {"hidden_size", "int", "4096"},
    {"intermediate_size", "int", "12288"},
    {"moe_intermediate_size", "int", "2048"},
    {"num_hidden_layers", "int", "36"},
    {"num_attention_heads", "int", "32"},
    {"num_key_value_heads", "int?", "32"},
    {"n_shared_experts", "int", "1"},
    {"n_routed_experts", "int", "128", KeyEffect::kUsed, "num_local_experts"},
    {"routed_scaling_factor", "real", "1.0"},
    {"kv_lora_rank", "int", "256"},
    {"q_lora_rank", "int?", "1024"},
    {"qk_rope_head_dim", "int", "64"},
    {"v_head_dim", "int", "128"},
    {"qk_nope_head_dim", "int", "64"},
    {"n_group", "int", "1"},
    {"topk_group", "int", "1"},
    {"num_experts_per_tok", "int", "4"},
    {"first_k_dense_replace", "int", "0"},
    {"norm_topk_prob", "flag?", "true"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "1048576"},
    {"rms_norm_eps", "real", "1e-06"},
    {"bos_token_id", "any?", "1"},
    {"eos_token_id", "any?", "2"},
    {"tie_word_embeddings", "flag", "false"},
    {"rope_parameters", "object~",
     R"({"type": "yarn", "rope_type": "yarn", "factor": 128.0, "original_max_position_embeddings": 8192, "max_position_embeddings": 1048576, "beta_fast": 32.0, "beta_slow": 1.0, "mscale_all_dim": 1.0, "mscale": 1.0, "llama_4_scaling_beta": 0.1})"},
    {"partial_rotary_factor", "real?", "0.5"},
    {"rope_interleave", "flag?", "true"},
    {"head_dim", "any", "128", KeyEffect::kNone}, // The class replaces it.
};

const ConfigKeys kMistral4Keys = kRows;

/// The keys of Mistral3Config.
constexpr ConfigKey kOuterRows[] = {
    {"text_config", "object", "null"},
    {"vision_config", "any", "null", KeyEffect::kNone},
    {"image_token_index", "any", "10", KeyEffect::kNone, "image_token_id"},
    {"projector_hidden_act", "any", R"("gelu")", KeyEffect::kNone},
    {"vision_feature_layer", "any", "-1", KeyEffect::kNone},
    {"multimodal_projector_bias", "any", "false", KeyEffect::kNone},
    {"spatial_merge_size", "any", "2", KeyEffect::kNone},
    {"tie_word_embeddings", "any", "true", KeyEffect::kNone}, // The stored tensors decide.
};

const ConfigKeys kMistral3Keys = kOuterRows;

/// The factor on queries, which the object with the rotation has.
static Result<PositionScale> readQueryScale(const ConfigObject &config) {
  const char *const originalKey = "original_max_position_embeddings";
  MOERT_ASSIGN_OR_RETURN(
      const ConfigObject rope,
      config.object(config.has("rope_scaling") ? "rope_scaling" : "rope_parameters"));
  const ConfigObject &holder = config.contains(originalKey) ? config : rope;
  MOERT_ASSIGN_OR_RETURN(const double beta, rope.real("llama_4_scaling_beta", 0, 1e3));
  MOERT_ASSIGN_OR_RETURN(const uint32_t period, holder.integer(originalKey, 1, kMaxPositions));
  return PositionScale{static_cast<float>(beta), period, 0};
}

static Status readRotation(const ConfigObject &config, const LatentAttentionConfig &attention,
                           DecoderConfig &decoder) {
  MOERT_ASSIGN_OR_RETURN(const bool interleaves, config.boolean("rope_interleave"));
  decoder.rope.style = interleaves ? RopeStyle::kInterleaved : RopeStyle::kHalf;
  decoder.rope.isPartial = true;
  const double whole = decoder.headDim;
  MOERT_ASSIGN_OR_RETURN(const double part,
                         readPartialRotaryFactor(config, attention.sharedDim / whole));
  if (static_cast<uint32_t>(whole * part) != attention.sharedDim)
    return config.mismatch("qk_rope_head_dim",
                           strCat("the rotated part of a head, ", part, " of ", decoder.headDim));
  return Status();
}

Result<ModelDescription> describeMistral4(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  MOERT_RETURN_IF_ERROR(readRotation(config, attention, decoder));
  MOERT_ASSIGN_OR_RETURN(const PositionScale queryScale, readQueryScale(config));
  if (input.outer) {
    const bool isOfClass = input.hasTensor("model.language_model.embed_tokens.weight");
    decoder.headPrefix = isOfClass ? "" : "language_model.";
    decoder.prefix = isOfClass ? "model.language_model." : "language_model.model.";
  }
  MOERT_ASSIGN_OR_RETURN(DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSoftmaxThenTopK));
  MOERT_ASSIGN_OR_RETURN(moe.isRouted, readRoutedFromFirst(config, decoder.layerCount));
  MOERT_ASSIGN_OR_RETURN(moe.weightScale, readMultiplier(config, "routed_scaling_factor"));
  MOERT_RETURN_IF_ERROR(readGroups(config, moe));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix,
                             LayerDescription &layer) -> Status {
    describeLatentAttention(decoder, attention, prefix + "self_attn.", layer);
    layer.latentAttention->queryScale = queryScale;
    MOERT_RETURN_IF_ERROR(
        describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer));
    if (layer.moe) {
      layer.moe->router.groups = moe.groups;
      layer.moe->router.keptGroups = moe.keptGroups;
      layer.moe->router.groupScore = moert::GroupScore::kTwoLargest;
    }
    return {};
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  if (input.outer)
    for (const char *part : {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                             "model.multi_modal_projector."})
      model.otherParts.push_back(part);
  return model;
}

} // namespace moec
