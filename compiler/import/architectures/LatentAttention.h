// Multi-head latent attention in configs and checkpoints, with the keys and tensor names that
// DeepSeek-V2 introduced and other families took over.
#pragma once

#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

struct LatentAttentionConfig {
  /// The family's: whether queries and keys have shared parts, and the epsilon of the latents'
  /// norms, which for most is the default of their class and not rms_norm_eps.
  bool hasShared = true;
  std::optional<float> latentEpsilon = 1e-6f; // Absent: rms_norm_eps.
  uint32_t queryRank = 0;              // 0: queries come from the input without a down-projection.
  uint32_t rank = 0;                   // The latent's width.
  uint32_t restDim = 0, sharedDim = 0; // Parts of a head's query; the shared one rotates.
  uint32_t valueDim = 0;
  float scale = 0;
};

/// Reads the keys of the decoder and of its attention, whose first two fields are the caller's; the
/// rotation is of neighbours, unless rope_interleave is false.
moert::Status readLatentAttention(const ConfigObject &config, DecoderConfig &decoder,
                                  LatentAttentionConfig &attention);

/// Replaces the layer's attention; the tensors' names begin with `module`
/// ("model.layers.3.self_attn.").
void describeLatentAttention(const DecoderConfig &decoder, const LatentAttentionConfig &attention,
                             const std::string &module, LayerDescription &layer);

} // namespace moec
