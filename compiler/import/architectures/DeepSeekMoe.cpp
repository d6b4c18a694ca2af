#include "compiler/import/architectures/DeepSeekMoe.h"

#include "runtime/policy/Routing.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

Status readGroups(const ConfigObject &config, DeepSeekMoeConfig &moe) {
  MOERT_ASSIGN_OR_RETURN(moe.groups, config.integer("n_group", 1, moert::kMaxRouterGroups));
  if (moe.routed.experts % moe.groups != 0)
    return config.mismatch("n_group", strCat("a divisor of ", moe.routed.experts, " experts"));
  MOERT_ASSIGN_OR_RETURN(moe.keptGroups, config.integer("topk_group", 1, moe.groups));
  if (moe.routed.experts / moe.groups * moe.keptGroups < moe.routed.topK)
    return config.mismatch("topk_group",
                           strCat("groups with at least ", moe.routed.topK, " experts"));
  return {};
}

Result<std::vector<bool>> readRoutedFromFirst(const ConfigObject &config, uint32_t layers) {
  MOERT_ASSIGN_OR_RETURN(const uint32_t first,
                         config.integer("first_k_dense_replace", 0, kMaxLayerNumber));
  std::vector<bool> isRouted(layers);
  for (uint32_t layer = first; layer < layers; ++layer)
    isRouted[layer] = true;
  return isRouted;
}

Result<DeepSeekMoeConfig> readDeepSeekMoe(const ConfigObject &config, RouterScoring scoring) {
  DeepSeekMoeConfig moe;
  moe.scoring = scoring;
  MOERT_ASSIGN_OR_RETURN(moe.routed.experts, config.integer("n_routed_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(moe.routed.topK, readTopK(config, "num_experts_per_tok",
                                                   moe.routed.experts, "n_routed_experts"));
  MOERT_ASSIGN_OR_RETURN(moe.routed.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  const char *const sharedKey = "n_shared_experts";
  if (config.has(sharedKey)) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t shared, config.integer(sharedKey, 0, kMaxSharedExperts));
    MOERT_ASSIGN_OR_RETURN(moe.sharedWidth,
                           sharedWidth(config, sharedKey, shared, moe.routed.width));
  }
  MOERT_ASSIGN_OR_RETURN(moe.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  MOERT_ASSIGN_OR_RETURN(moe.routed.renormalize, config.boolean("norm_topk_prob"));
  if (scoring != RouterScoring::kSigmoid)
    return moe;
  MOERT_ASSIGN_OR_RETURN(moe.weightScale, readMultiplier(config, "routed_scaling_factor"));
  MOERT_RETURN_IF_ERROR(readGroups(config, moe));
  return moe;
}

static void setSigmoidRouter(const DeepSeekMoeConfig &moe, const std::string &module,
                             RouterDescription &router) {
  router.scoring = RouterScoring::kSigmoid;
  router.choiceBias = vectorSource(module + "gate.e_score_correction_bias", moe.routed.experts);
  router.groups = moe.groups;
  router.keptGroups = moe.keptGroups;
  router.groupScore = moert::GroupScore::kTwoLargest;
}

Status describeDeepSeekNetwork(const ArchitectureInput &input, const DeepSeekMoeConfig &moe,
                               const DecoderConfig &decoder, uint32_t number,
                               const std::string &module, LayerDescription &layer) {
  const uint32_t hidden = decoder.hiddenSize;
  if (!moe.isRouted[number]) {
    layer.dense = gluNetwork(module, {{}, hidden, moe.denseWidth, decoder.activation});
    return {};
  }
  MOERT_ASSIGN_OR_RETURN(MoeDescription network, routedNetwork(input, decoder, moe.routed, module));
  network.router.weightScale = moe.weightScale;
  if (moe.scoring == RouterScoring::kSigmoid)
    setSigmoidRouter(moe, module, network.router);
  if (moe.sharedWidth > 0)
    network.shared.emplace().network =
        gluNetwork(module + "shared_experts.", {{}, hidden, moe.sharedWidth, decoder.activation});
  layer.moe = std::move(network);
  return {};
}

} // namespace moec
