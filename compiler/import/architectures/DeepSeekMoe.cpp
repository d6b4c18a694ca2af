#include "compiler/import/architectures/DeepSeekMoe.h"

namespace moec {

using moert::Result;
using moert::Status;
using moert::strCat;

static constexpr uint32_t kMaxSharedExperts = 1024;

static Status readGroups(const ConfigObject &config, DeepSeekMoeConfig &moe) {
  if (!config.has("n_group"))
    return {};
  MOERT_ASSIGN_OR_RETURN(moe.groups, config.integer("n_group", 1, kMaxRouterGroups));
  if (moe.experts % moe.groups != 0)
    return config.mismatch("n_group", strCat("a divisor of ", moe.experts, " experts"));
  MOERT_ASSIGN_OR_RETURN(moe.keptGroups, config.integer("topk_group", 1, moe.groups));
  if (moe.experts / moe.groups * moe.keptGroups < moe.topK)
    return config.mismatch("topk_group", strCat("groups with at least ", moe.topK, " experts"));
  return {};
}

Result<DeepSeekMoeConfig> readDeepSeekMoe(const ConfigObject &config, bool renormalizes) {
  DeepSeekMoeConfig moe;
  MOERT_ASSIGN_OR_RETURN(moe.experts, config.integer("n_routed_experts", 1, kMaxExperts));
  MOERT_ASSIGN_OR_RETURN(moe.topK, config.integer("num_experts_per_tok", 1, moe.experts));
  MOERT_ASSIGN_OR_RETURN(moe.width, config.integer("moe_intermediate_size", 1, kMaxWidth));
  if (config.has("n_shared_experts")) {
    MOERT_ASSIGN_OR_RETURN(const uint32_t shared,
                           config.integer("n_shared_experts", 0, kMaxSharedExperts));
    if (uint64_t{shared} * moe.width > kMaxWidth)
      return config.mismatch("n_shared_experts", strCat("at most ", kMaxWidth / moe.width));
    moe.sharedWidth = shared * moe.width;
  }
  MOERT_ASSIGN_OR_RETURN(moe.firstRouted,
                         config.integer("first_k_dense_replace", 0, kMaxLayerNumber, 0));
  MOERT_ASSIGN_OR_RETURN(moe.frequency, config.integer("moe_layer_freq", 1, kMaxLayerNumber, 1));
  if (moe.firstRouted > 0 || moe.frequency > 1) {
    MOERT_ASSIGN_OR_RETURN(moe.denseWidth, config.integer("intermediate_size", 1, kMaxWidth));
  }
  MOERT_ASSIGN_OR_RETURN(moe.renormalize, config.boolean("norm_topk_prob", renormalizes));
  MOERT_ASSIGN_OR_RETURN(moe.weightScale, readMultiplier(config, "routed_scaling_factor", 1));
  MOERT_RETURN_IF_ERROR(readGroups(config, moe));
  return moe;
}

void setSigmoidRouter(const DeepSeekMoeConfig &moe, const std::string &module,
                      RouterDescription &router) {
  router.scoring = RouterScoring::kSigmoid;
  router.choiceBias = vectorSource(module + "gate.e_score_correction_bias", moe.experts);
  router.groups = moe.groups;
  router.keptGroups = moe.keptGroups;
  router.groupScore = GroupScore::kTwoLargest;
}

Status describeDeepSeekNetwork(const ArchitectureInput &input, const DeepSeekMoeConfig &moe,
                               const DecoderConfig &decoder, uint32_t number,
                               const std::string &module, LayerDescription &layer) {
  const uint32_t hidden = decoder.hiddenSize;
  if (!moe.isRouted(number)) {
    layer.dense = gluNetwork(module, {{}, hidden, moe.denseWidth, decoder.activation});
    return {};
  }
  MoeDescription &network = layer.moe.emplace();
  network.router.linear = linearLayer(module + "gate.", moe.experts, hidden);
  network.router.topK = moe.topK;
  network.router.renormalize = moe.renormalize;
  network.router.weightScale = moe.weightScale;
  MOERT_ASSIGN_OR_RETURN(network.experts,
                         describeExperts(input, module + "experts.",
                                         {{}, hidden, moe.width, decoder.activation}, moe.experts));
  if (moe.sharedWidth > 0)
    network.shared.emplace().network =
        gluNetwork(module + "shared_experts.", {{}, hidden, moe.sharedWidth, decoder.activation});
  return {};
}

} // namespace moec
