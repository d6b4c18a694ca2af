// The text part of Qwen3-VL-MoE: Qwen3-MoE with renormalized weights, experts fused in two
// transposed tensors, and the text's config under text_config. The vision tower (model.visual.*)
// is not read; what it adds to the first layers (deepstack) and positions of images (mrope) do
// nothing for text. Reference: transformers, models/qwen3_vl_moe/modular_qwen3_vl_moe.py.
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

using moert::Result;
using moert::Status;

/// The keys of Qwen3VLMoeTextConfig.
constexpr ConfigKey kRows[] = {
    {"vocab_size", "int", "151936"},
    {"hidden_size", "int", "2048"},
    {"intermediate_size", "int", "5632"},
    {"num_hidden_layers", "int", "24"},
    {"num_attention_heads", "int", "16"},
    {"num_key_value_heads", "int", "16"},
    {"hidden_act", "text", R"("silu")"},
    {"max_position_embeddings", "int", "128000"},
    {"rms_norm_eps", "real", "1e-06"},
    {"rope_theta", "real", "500000.0"},
    {"tie_word_embeddings", "flag", "true"},
    {"decoder_sparse_step", "int", "1"},
    {"moe_intermediate_size", "int", "1408"},
    {"num_experts_per_tok", "int", "4"},
    {"num_experts", "int", "60", KeyEffect::kUsed, "num_local_experts"},
    {"norm_topk_prob", "flag", "true", KeyEffect::kDefaultOnly},
    {"mlp_only_layers", "list?", "null"},
    {"bos_token_id", "any?", "null"},
    {"eos_token_id", "any?", "null"},
    {"head_dim", "int?", "null"},
};

const ConfigKeys kQwen3VlMoeTextKeys = kRows;

/// The keys of Qwen3VLMoeConfig.
constexpr ConfigKey kOuterRows[] = {
    {"text_config", "object", "null"},
    {"vision_config", "any", "null", KeyEffect::kNone},
    {"image_token_id", "any", "151655", KeyEffect::kNone},
    {"video_token_id", "any", "151656", KeyEffect::kNone},
    {"vision_start_token_id", "any", "151652", KeyEffect::kNone},
    {"vision_end_token_id", "any", "151653", KeyEffect::kNone},
    {"tie_word_embeddings", "flag", "false"},
};

const ConfigKeys kQwen3VlMoeKeys = kOuterRows;

static MoeDescription routedLayer(const DecoderConfig &decoder, const RoutedConfig &routed,
                                  const std::string &module) {
  MoeDescription moe;
  moe.router = softmaxRouter(decoder, routed, module + "gate.");
  moe.experts =
      fusedExperts(module + "experts.gate_up_proj", module + "experts.down_proj",
                   {{}, decoder.hiddenSize, routed.width, decoder.activation}, routed.experts);
  for (GluDescription &expert : moe.experts)
    for (LinearDescription *linear : {&expert.gate, &expert.up, &expert.down})
      linear->weight.transposed = true;
  return moe;
}

Result<ModelDescription> describeQwen3VlMoe(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(config));
  // The reference implementation reads the outer flag.
  MOERT_ASSIGN_OR_RETURN(decoder.tiedHead, input.outer->boolean("tie_word_embeddings"));
  decoder.prefix = "model.language_model.";
  RoutedConfig routed;
  MOERT_ASSIGN_OR_RETURN(routed.experts, config.integer("num_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(routed.topK,
                         readTopK(config, "num_experts_per_tok", routed.experts, "num_experts"));
  MOERT_ASSIGN_OR_RETURN(routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(const uint32_t denseWidth,
                         config.integer("intermediate_size", 1, kMaxWidth));
  routed.renormalize = true;
  MOERT_ASSIGN_OR_RETURN(const std::vector<bool> isRouted,
                         readRoutedLayers(config, decoder.layerCount));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.", module = prefix + "mlp.";
    addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kHead,
                 layer.attention);
    if (isRouted[number])
      layer.moe = routedLayer(decoder, routed, module);
    else
      layer.dense = gluNetwork(module, {{}, decoder.hiddenSize, denseWidth, decoder.activation});
    return Status();
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(input, decoder, fillLayer));
  model.modelType = "qwen3_vl_moe";
  model.otherParts.push_back("model.visual.");
  return model;
}

} // namespace moec
