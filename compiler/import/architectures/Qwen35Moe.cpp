// The text part of Qwen3.5-MoE and Qwen3.6-MoE: Qwen3-Next with the projections of a delta net in
// tensors of their own, and routed experts in every layer. Published checkpoints have a vision
// tower too (model.visual.*) and keep the text's config under text_config and its tensors under
// model.language_model; text-only ones have neither. Positions of images and videos (mrope) do
// nothing for text. Reference: transformers, models/qwen3_5_moe/modular_qwen3_5_moe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/GatedDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of Qwen3_5MoeTextConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "248320"},
    {"hidden_size", "int", "2048"},
    {"num_hidden_layers", "int", "40"},
    {"num_attention_heads", "int", "16"},
    {"num_key_value_heads", "int?", "2"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "32768"},
    {"rms_norm_eps", "real", "1e-06"},
    {"tie_word_embeddings", "flag", "false"},
    {"head_dim", "int?", "256"},
    {"linear_conv_kernel_dim", "int", "4"},
    {"linear_key_head_dim", "int", "128"},
    {"linear_value_head_dim", "int", "128"},
    {"linear_num_key_heads", "int", "16"},
    {"linear_num_value_heads", "int", "32"},
    {"moe_intermediate_size", "int", "512"},
    {"shared_expert_intermediate_size", "int", "512"},
    {"num_experts_per_tok", "int", "8"},
    {"num_experts", "int", "256"},
    {"layer_types", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"partial_rotary_factor", "real?", "0.25"},
    {"full_attention_interval", "int", "4"},
    {"use_sliding_window", "flag", "false", KeyEffect::kDefaultOnly},
    {"attn_output_gate", "flag", "true", KeyEffect::kDefaultOnly},
};

const ConfigKeys kQwen35MoeTextKeys = kRows;

/// The keys of Qwen3_5MoeConfig.
constexpr ConfigKey kOuterRows[] = {
    {"text_config", "object", "null"},
    {"vision_config", "any", "null", KeyEffect::kNone},
    {"image_token_id", "any", "248056", KeyEffect::kNone},
    {"video_token_id", "any", "248057", KeyEffect::kNone},
    {"vision_start_token_id", "any", "248053", KeyEffect::kNone},
    {"vision_end_token_id", "any", "248054", KeyEffect::kNone},
    {"tie_word_embeddings", "flag", "false"},
};

const ConfigKeys kQwen35MoeKeys = kOuterRows;

Result<ModelDescription> describeQwen35Moe(const ArchitectureInput &input) {
  MOERT_ASSIGN_OR_RETURN(GatedDecoderConfig gated, readGatedDecoder(input.config));
  DecoderConfig &decoder = gated.decoder;
  if (input.outer) { // The reference implementation reads the outer flag.
    MOERT_ASSIGN_OR_RETURN(decoder.tiedHead, input.outer->boolean("tie_word_embeddings"));
  }
  gated.routed.renormalize = true;
  if (input.hasTensor("model.language_model.embed_tokens.weight"))
    decoder.prefix = "model.language_model.";
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string mixer = prefix + "linear_attn.";
    if (gated.isRecurrent[number])
      setSplitSources(gated, mixer, describeDeltaNet(gated, mixer, layer));
    else
      describeGatedAttention(gated, prefix, layer);
    return describeGatedNetwork(input, gated, prefix + "mlp.", layer);
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  if (input.outer)
    model.modelType = "qwen3_5_moe";
  for (const char *part : {"model.visual.", "mtp."})
    model.otherParts.push_back(part);
  return model;
}

} // namespace moec
