// DeepSeek-MoE (16B, the first version): plain multi-head attention, softmax then top-k. Reference:
// the model's remote code, and mlx-lm, mlx_lm/models/deepseek.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"

namespace moec {

using moert::Result;

Result<ModelDescription> describeDeepSeek(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"attention_bias", "mlp_bias", "lm_head_bias"}));
  MOERT_ASSIGN_OR_RETURN(const std::string scoring, config.string("scoring_func", "softmax"));
  if (scoring != "softmax")
    return config.mismatch("scoring_func", "softmax");
  MOERT_ASSIGN_OR_RETURN(const DecoderConfig decoder, readDecoderConfig(config));
  MOERT_ASSIGN_OR_RETURN(const DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSoftmaxThenTopK, false));
  return describeDecoder(
      input, decoder, [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
        return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
      });
}

} // namespace moec
