// GLM-4.5 and 4.6: a part of each head rotates, biases on queries, keys and values, optional norms
// per head, DeepSeek-V3's sigmoid router. The layer after the last one, for multi-token
// prediction, is not read. Reference: transformers, models/glm4_moe/modular_glm4_moe.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"

namespace moec {

using moert::Result;

Result<ModelDescription> describeGlm4Moe(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"mlp_bias", "lm_head_bias"}));
  MOERT_ASSIGN_OR_RETURN(DecoderConfig decoder, readDecoderConfig(config));
  MOERT_RETURN_IF_ERROR(setPartialRotation(config, decoder));
  MOERT_ASSIGN_OR_RETURN(const DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSigmoid, true));
  MOERT_ASSIGN_OR_RETURN(const bool hasBias, config.boolean("attention_bias", false));
  MOERT_ASSIGN_OR_RETURN(const bool hasNorms, config.boolean("use_qk_norm", false));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.";
    if (hasBias) {
      addBias(layer.attention.query, attention + "q_proj.");
      addBias(layer.attention.key, attention + "k_proj.");
      addBias(layer.attention.value, attention + "v_proj.");
    }
    if (hasNorms)
      addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kHead,
                   layer.attention);
    return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
