// What Granite-MoE and Granite 4 share: four multipliers and the routed experts.
#pragma once

#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

struct GraniteConfig {
  RoutedConfig routed;
  float embedding = 1, attention = 1, residual = 1, logits = 1;
};

moert::Result<GraniteConfig> readGranite(const ConfigObject &config);

/// The routed experts of a layer, fused in two tensors.
MoeDescription graniteExperts(const GraniteConfig &granite, const DecoderConfig &decoder,
                              const std::string &module);

/// The model with its multipliers; those of attention scores are the layers'.
moert::Result<ModelDescription> describeGranite(const ArchitectureInput &input,
                                                const GraniteConfig &granite,
                                                const DecoderConfig &decoder,
                                                const FillLayer &fillLayer);

} // namespace moec
