#include "compiler/import/architectures/Streams.h"

namespace moec {

using moert::Result;
using moert::strCat;

static constexpr uint32_t kMaxIterations = 1000;

Result<StreamsDescription> readStreams(const ConfigObject &config, const DecoderConfig &decoder) {
  StreamsDescription streams;
  MOERT_ASSIGN_OR_RETURN(streams.count, config.integer("hc_mult", 1, moert::kMaxStreams));
  MOERT_ASSIGN_OR_RETURN(streams.iterations,
                         config.integer("hc_sinkhorn_iters", 1, kMaxIterations));
  MOERT_ASSIGN_OR_RETURN(const double epsilon, config.real("hc_eps", 0, 1));
  streams.epsilon = static_cast<float>(epsilon);
  streams.normEpsilon = decoder.epsilon;
  return streams;
}

StreamMixDescription streamMix(const DecoderConfig &decoder, const StreamsDescription &streams,
                               const std::string &name, bool isHead) {
  const uint32_t weights = isHead ? streams.count : (2 + streams.count) * streams.count;
  return {matrixSource(name + "_fn", weights, streams.count * decoder.hiddenSize),
          vectorSource(name + "_scale", isHead ? 1 : 3), vectorSource(name + "_base", weights)};
}

void describeStreams(const DecoderConfig &decoder, const StreamsDescription &streams,
                     const std::string &prefix, LayerDescription &layer) {
  layer.attentionStreams = streamMix(decoder, streams, prefix + "hc_attn");
  layer.networkStreams = streamMix(decoder, streams, prefix + "hc_ffn");
}

Result<moert::GluActivation> readClampedSilu(const ConfigObject &config) {
  MOERT_ASSIGN_OR_RETURN(const double limit, config.real("swiglu_limit", 1e-3, 1e6));
  return moert::GluActivation{moert::Activation::kClampedSilu, 1, static_cast<float>(limit)};
}

} // namespace moec
