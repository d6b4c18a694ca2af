// DeepSeek-V3 and R1: latent attention, and a sigmoid router with a bias for the choice, within
// groups. The layer after the last one, for multi-token prediction, is not read. References:
// DeepSeek-V3 (arXiv 2412.19437), sections 2.1.1 and 2.1.2; transformers,
// models/deepseek_v3/modeling_deepseek_v3.py.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LatentAttention.h"

namespace moec {

using moert::Result;

Result<ModelDescription> describeDeepSeekV3(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"mlp_bias", "lm_head_bias"}));
  MOERT_RETURN_IF_ERROR(requireKeys(
      config, {"n_group", "topk_group", "first_k_dense_replace", "routed_scaling_factor"}));
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  MOERT_RETURN_IF_ERROR(checkSigmoidChoice(config));
  MOERT_ASSIGN_OR_RETURN(const DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSigmoid, true));
  return describeDecoder(
      input, decoder, [&](uint32_t number, const std::string &prefix, LayerDescription &layer) {
        describeLatentAttention(decoder, attention, prefix + "self_attn.", layer);
        return describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer);
      });
}

} // namespace moec
