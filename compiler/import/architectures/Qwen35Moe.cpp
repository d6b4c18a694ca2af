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

static void setSources(const GatedDecoderConfig &config, const std::string &module,
                       DeltaNetDescription &net) {
  const uint32_t hidden = config.decoder.hiddenSize;
  const std::string qkv = module + "in_proj_qkv.";
  net.query.linear = linearLayer(qkv, config.keys(), hidden);
  net.key.linear = linearLayer(qkv, config.keys(), hidden);
  net.key.linear.weight.firstRow = config.keys();
  net.value.linear = linearLayer(qkv, config.values(), hidden);
  net.value.linear.weight.firstRow = 2 * config.keys();
  net.gate = linearLayer(module + "in_proj_z.", config.values(), hidden);
  net.write = linearLayer(module + "in_proj_b.", config.heads, hidden);
  net.decay = linearLayer(module + "in_proj_a.", config.heads, hidden);
}

/// The config of the text, which is the whole config of a text-only checkpoint.
static Result<ConfigObject> textConfigOf(const ConfigObject &config) {
  if (!config.has("text_config"))
    return config;
  MOERT_ASSIGN_OR_RETURN(const ConfigObject text, config.object("text_config"));
  MOERT_ASSIGN_OR_RETURN(const std::string type, text.string("model_type", "qwen3_5_moe_text"));
  if (type != "qwen3_5_moe_text")
    return text.mismatch("model_type", "qwen3_5_moe_text");
  return text;
}

Result<ModelDescription> describeQwen35Moe(const ArchitectureInput &input) {
  ArchitectureInput text = input;
  MOERT_ASSIGN_OR_RETURN(text.config, textConfigOf(input.config));
  const ConfigObject &config = text.config;
  MOERT_ASSIGN_OR_RETURN(GatedDecoderConfig gated, readGatedDecoder(config));
  MOERT_ASSIGN_OR_RETURN(const bool hasGate, config.boolean("attn_output_gate", true));
  if (!hasGate)
    return config.mismatch("attn_output_gate", "true, as in all published models");
  DecoderConfig &decoder = gated.decoder;
  // The reference implementation reads the outer flag, where there is one.
  MOERT_ASSIGN_OR_RETURN(decoder.tiedHead,
                         input.config.boolean("tie_word_embeddings", decoder.tiedHead));
  gated.routed.renormalize = true;
  if (input.hasTensor("model.language_model.embed_tokens.weight"))
    decoder.prefix = "model.language_model.";
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string mixer = prefix + "linear_attn.";
    if (gated.isRecurrent[number])
      setSources(gated, mixer, describeDeltaNet(gated, mixer, layer));
    else
      describeGatedAttention(gated, prefix, layer);
    return describeGatedNetwork(text, gated, prefix + "mlp.", layer);
  };
  MOERT_ASSIGN_OR_RETURN(ModelDescription model, describeDecoder(text, decoder, fillLayer));
  MOERT_ASSIGN_OR_RETURN(model.modelType, input.config.string("model_type"));
  for (const char *part : {"model.visual.", "mtp."})
    model.otherParts.push_back(part);
  return model;
}

} // namespace moec
