#include "compiler/import/architectures/KimiDelta.h"

namespace moec {

using moert::Status;
using moert::strCat;

/// The reference implementation's constant for the lengths of queries and keys.
static constexpr float kLengthEpsilon = 1e-6f;

Status checkKimiDelta(const ConfigObject &config, std::string_view key,
                      const KimiDeltaConfig &delta) {
  const uint64_t width = uint64_t{delta.heads} * delta.headDim;
  if (width * delta.headDim > kMaxStateElements)
    return config.mismatch(
        key, strCat("heads whose states have at most ", kMaxStateElements, " elements together"));
  if (width < kLeastConvolved)
    return config.mismatch(key,
                           strCat("heads of at least ", kLeastConvolved, " elements together"));
  return Status();
}

void describeKimiDelta(const DecoderConfig &decoder, const KimiDeltaConfig &config,
                       const std::string &module, std::string_view output,
                       LayerDescription &layer) {
  layer.attention = {};
  DeltaNetDescription &net = layer.deltaNet.emplace();
  const uint32_t hidden = decoder.hiddenSize, width = config.width();
  const auto convolved = [&](const std::string &name) {
    return ConvolvedDescription{linearLayer(module + name + "_proj.", width, hidden),
                                matrixSource(module + name + "_conv1d.weight", width, config.taps),
                                std::nullopt};
  };
  net.keyHeads = net.heads = config.heads;
  net.query = convolved("q");
  net.key = convolved("k");
  net.value = convolved("v");
  if (config.isLowRank) {
    net.decayDown = linearLayer(module + "f_a_proj.", config.headDim, hidden);
    net.decay = linearLayer(module + "f_b_proj.", width, config.headDim);
    net.gateDown = linearLayer(module + "g_a_proj.", config.headDim, hidden);
    net.gate = linearLayer(module + "g_b_proj.", width, config.headDim);
  } else {
    net.decay = linearLayer(module + "f_proj.", width, hidden);
    net.gate = linearLayer(module + "g_proj.", width, hidden);
  }
  net.write = linearLayer(module + "b_proj.", config.heads, hidden);
  net.logRate = vectorSource(module + "A_log", config.heads);
  net.decayBias = vectorSource(module + "dt_bias", width);
  net.decayBound = config.bound;
  net.gatesBySigmoid = true;
  net.lengthEpsilon = kLengthEpsilon;
  net.outputNorm = rmsNorm(decoder, module + "o_norm.weight", config.headDim);
  net.output = linearLayer(strCat(module, output), hidden, width);
}

} // namespace moec
