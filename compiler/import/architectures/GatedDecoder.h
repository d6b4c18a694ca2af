// What Qwen3-Next and its successors share: most layers' mixers are gated delta nets, the others'
// attention with a gate on its output; norms multiply by 1 + weight; the networks are Qwen2-MoE's.
#pragma once

#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

/// The dimensions of the delta nets, and which layers have one.
struct GatedDecoderConfig {
  DecoderConfig decoder;
  uint32_t keyHeads = 0, heads = 0, keyDim = 0, valueDim = 0, taps = 0;
  std::vector<bool> isRecurrent; // Per layer.
  RoutedConfig routed;
  uint32_t sharedWidth = 0;

  uint32_t keys() const { return keyHeads * keyDim; }
  uint32_t values() const { return heads * valueDim; }
};

/// Reads and checks the keys that the families share; `routed.renormalize` is the family's.
moert::Result<GatedDecoderConfig> readGatedDecoder(const ConfigObject &config);

/// Replaces a layer's attention by the attention with a gate, whose rows are in q_proj, head by
/// head below the query's.
void describeGatedAttention(const GatedDecoderConfig &config, const std::string &prefix,
                            LayerDescription &layer);

/// Replaces it by a delta net without the sources of its products, which differ between families.
DeltaNetDescription &describeDeltaNet(const GatedDecoderConfig &config, const std::string &module,
                                      LayerDescription &layer);

/// Its products, each in a tensor of its own but for query, key and value.
void setSplitSources(const GatedDecoderConfig &config, const std::string &module,
                     DeltaNetDescription &net);

/// The routed and the shared expert of a layer.
moert::Status describeGatedNetwork(const ArchitectureInput &input, const GatedDecoderConfig &config,
                                   const std::string &module, LayerDescription &layer);

} // namespace moec
