// Kimi delta attention (Kimi Linear, arXiv 2510.26692) in checkpoints, with the tensor names that
// Kimi Linear introduced and other families took over: a gated delta rule whose heads have their
// own keys, with a decay for each element of a key, and a sigmoid gate.
#pragma once

#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

struct KimiDeltaConfig {
  uint32_t heads = 0, headDim = 0, taps = 0;
  std::optional<float> bound; // The least logarithm of a decay, below 0.
  bool isLowRank = false;     // Gates and decays are products of headDim products of the input.

  uint32_t width() const { return heads * headDim; }
};

/// Refuses widths that cannot be computed with; `key` holds the width of a head.
moert::Status checkKimiDelta(const ConfigObject &config, std::string_view key,
                             const KimiDeltaConfig &delta);

/// Replaces the layer's attention; the tensors' names begin with `module`
/// ("model.layers.3.self_attn."), the last product's with `output`.
void describeKimiDelta(const DecoderConfig &decoder, const KimiDeltaConfig &config,
                       const std::string &module, std::string_view output, LayerDescription &layer);

} // namespace moec
