// DeepSeek-V2 and V2-Lite: latent attention, softmax then top-k, of the full model within groups.
// References: DeepSeek-V2 (arXiv 2405.04434), sections 2.1 and 2.1.2; transformers,
// models/deepseek_v2/modular_deepseek_v2.py; the models' remote code.
#include "compiler/import/architectures/DeepSeekMoe.h"
#include "compiler/import/architectures/Families.h"
#include "compiler/import/architectures/LatentAttention.h"

namespace moec {

using moert::Result;
using moert::Status;

/// Whether experts compete within groups.
static Result<bool> readGrouped(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(const std::string scoring, config.string("scoring_func", "softmax"));
  if (scoring != "softmax")
    return config.mismatch("scoring_func", "softmax");
  MOERT_ASSIGN_OR_RETURN(const bool renormalizes, config.boolean("norm_topk_prob", false));
  if (renormalizes)
    return config.mismatch("norm_topk_prob",
                           "false: the reference implementations differ in what true means");
  MOERT_ASSIGN_OR_RETURN(const std::string method, config.string("topk_method", "greedy"));
  if (method != "greedy" && method != "group_limited_greedy")
    return config.mismatch("topk_method", "greedy or group_limited_greedy");
  if (method == "group_limited_greedy")
    MOERT_RETURN_IF_ERROR(requireKeys(config, {"n_group", "topk_group"}));
  return method == "group_limited_greedy";
}

Result<ModelDescription> describeDeepSeekV2(const ArchitectureInput &input) {
  const ConfigObject &config = input.config;
  MOERT_RETURN_IF_ERROR(refuseFlags(config, {"mlp_bias", "lm_head_bias"}));
  DecoderConfig decoder;
  LatentAttentionConfig attention;
  MOERT_RETURN_IF_ERROR(readLatentAttention(config, decoder, attention));
  MOERT_ASSIGN_OR_RETURN(const bool isGrouped, readGrouped(config));
  MOERT_ASSIGN_OR_RETURN(const DeepSeekMoeConfig moe,
                         readDeepSeekMoe(config, RouterScoring::kSoftmaxThenTopK, false));
  const auto fillLayer = [&](uint32_t number, const std::string &prefix,
                             LayerDescription &layer) -> Status {
    describeLatentAttention(decoder, attention, prefix + "self_attn.", layer);
    MOERT_RETURN_IF_ERROR(
        describeDeepSeekNetwork(input, moe, decoder, number, prefix + "mlp.", layer));
    if (layer.moe && isGrouped) {
      layer.moe->router.groups = moe.groups;
      layer.moe->router.keptGroups = moe.keptGroups;
      layer.moe->router.groupScore = moert::GroupScore::kLargest;
    }
    return {};
  };
  return describeDecoder(input, decoder, fillLayer);
}

} // namespace moec
