// dots.llm1: norms per head of queries and keys, DeepSeek-V3's sigmoid router. Reference:
// transformers, models/dots1/modular_dots1.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"

namespace moec {

using moert::Result;

Result<ModelDescription> describeDots1(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  if (config.has("sliding_window"))
    return config.mismatch("sliding_window", "null, as in all published models of this family");
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(config));
  MOERT_ASSIGN_OR_RETURN(const DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSigmoid, /*renormalizes=*/false));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
    const std::string attention = prefix + "self_attn.";
    addHeadNorms(decoder, attention + "q_norm", attention + "k_norm", NormExtent::kHead,
                 layer.attention);
    return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
