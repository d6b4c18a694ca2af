// Several residual streams in configs and checkpoints: the hyper-connections of DeepSeek-V4, whose
// keys and tensor names GLM-5.3 took over.
#pragma once

#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

/// Reads hc_mult, hc_sinkhorn_iters and hc_eps; norms have the decoder's epsilon.
moert::Result<StreamsDescription> readStreams(const ConfigObject &config,
                                              const DecoderConfig &decoder);

/// The weights around a branch, in the tensors name + "_fn", "_scale" and "_base"; those before the
/// head only merge the streams.
StreamMixDescription streamMix(const DecoderConfig &decoder, const StreamsDescription &streams,
                               const std::string &name, bool isHead = false);

/// Mixes the streams around both branches of a layer, whose tensors' names begin with `prefix`.
void describeStreams(const DecoderConfig &decoder, const StreamsDescription &streams,
                     const std::string &prefix, LayerDescription &layer);

/// silu(g) * u, both clamped by swiglu_limit.
moert::Result<moert::GluActivation> readClampedSilu(const ConfigObject &config);

} // namespace moec
