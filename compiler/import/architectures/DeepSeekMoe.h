// The networks of DeepSeek-MoE and of the families that took over its keys and tensor names: routed
// experts beside shared experts that are one ungated network, the first layers dense.
#pragma once

#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

struct DeepSeekMoeConfig {
  RoutedConfig routed;
  RouterScoring scoring = RouterScoring::kSoftmaxThenTopK;
  uint32_t sharedWidth = 0; // 0: no shared experts.
  uint32_t denseWidth = 0;
  std::vector<bool> isRouted; // Per layer; the others are dense.
  float weightScale = 1;
  uint32_t groups = 1, keptGroups = 1;
  GluNames expertNames;
  std::string_view choiceBias = "e_score_correction_bias";
};

/// scoring: the family's router. A sigmoid is DeepSeek-V3's, with a bias for the choice and groups.
/// isRouted and names are the caller's.
moert::Result<DeepSeekMoeConfig> readDeepSeekMoe(const ConfigObject &config, RouterScoring scoring,
                                                 std::string_view expertsKey = "n_routed_experts");

/// Which layers are routed: those from first_k_dense_replace on.
moert::Result<std::vector<bool>> readRoutedFromFirst(const ConfigObject &config, uint32_t layers);

/// Which layers are routed by mlp_layer_types, or `byCount` without that list; refuses a
/// first_k_dense_replace of the file that contradicts the list.
moert::Result<std::vector<bool>> readRoutedTypes(const ConfigObject &config,
                                                 std::vector<bool> byCount);

/// The groups in which experts compete; checks that they divide the experts.
moert::Status readGroups(const ConfigObject &config, DeepSeekMoeConfig &moe);

/// Fills in the layer's network, dense or routed.
moert::Status describeDeepSeekNetwork(const ArchitectureInput &input, const DeepSeekMoeConfig &moe,
                                      const DecoderConfig &decoder, uint32_t number,
                                      const std::string &module, LayerDescription &layer);

} // namespace moec
