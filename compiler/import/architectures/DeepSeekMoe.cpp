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

Result<std::vector<bool>> readRoutedTypes(const ConfigObject &config, std::vector<bool> byCount) {
  const char *const countKey = "first_k_dense_replace", *const typesKey = "mlp_layer_types";
  MOERT_ASSIGN_OR_RETURN(
      const std::vector<std::string> types,
      readLayerTypes(config, static_cast<uint32_t>(byCount.size()), {"dense", "sparse"}, typesKey));
  if (types.empty())
    return byCount;
  std::vector<bool> byType(types.size());
  for (size_t layer = 0; layer < types.size(); ++layer)
    byType[layer] = types[layer] == "sparse";
  if (config.contains(countKey) && config.has(countKey) && byCount != byType)
    return config.mismatch(countKey, strCat("the dense layers of ", typesKey));
  return byType;
}

Result<DeepSeekMoeConfig> readDeepSeekMoe(const ConfigObject &config, RouterScoring scoring,
                                          std::string_view expertsKey) {
  DeepSeekMoeConfig moe;
  moe.scoring = scoring;
  MOERT_ASSIGN_OR_RETURN(moe.routed.experts, config.integer(expertsKey, 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(moe.routed.topK,
                         readTopK(config, "num_experts_per_tok", moe.routed.experts, expertsKey));
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
  router.choiceBias = vectorSource(strCat(module, "gate.", moe.choiceBias), moe.routed.experts);
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
  MOERT_ASSIGN_OR_RETURN(MoeDescription network,
                         routedNetwork(input, decoder, moe.routed, module, moe.expertNames));
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
