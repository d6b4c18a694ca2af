#include "compiler/import/architectures/Mamba2.h"

namespace moec {

using moert::Result;
using moert::strCat;

Result<Mamba2Config> readMamba2(const ConfigObject &config, const Mamba2Keys &names,
                                uint32_t headDim) {
  Mamba2Config mamba;
  mamba.headDim = headDim;
  MOERT_ASSIGN_OR_RETURN(mamba.heads, config.integer(names.heads, 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(mamba.groups, config.integer(names.groups, 1, kMaxHeads));
  MOERT_ASSIGN_OR_RETURN(mamba.stateDim, config.integer(names.stateDim, 1, kMaxHeadDim));
  MOERT_ASSIGN_OR_RETURN(mamba.taps, config.integer(names.taps, 2, kMaxTaps));
  MOERT_ASSIGN_OR_RETURN(mamba.hasConvolutionBias, config.boolean(names.convolutionBias));
  if (mamba.heads % mamba.groups != 0)
    return config.mismatch(names.groups, strCat("a divisor of ", names.heads, ", ", mamba.heads));
  if (uint64_t{mamba.heads} * headDim * mamba.stateDim > kMaxStateElements)
    return config.mismatch(names.stateDim,
                           strCat("a state of at most ", kMaxStateElements, " elements for ",
                                  mamba.heads, " heads of ", headDim));
  if (mamba.values() < kLeastConvolved)
    return config.mismatch(names.heads, strCat("heads of at least ", kLeastConvolved,
                                               " elements together; each has ", headDim));
  if (mamba.keys() < kLeastConvolved)
    return config.mismatch(names.stateDim, strCat("at least ", kLeastConvolved, " for ",
                                                  mamba.groups, " groups together"));
  return mamba;
}

void describeMamba2(const Mamba2Config &config, const DecoderConfig &decoder,
                    const std::string &module, LayerDescription &layer) {
  layer.attention = {};
  StateSpaceDescription &space = layer.stateSpace.emplace();
  space.keyHeads = config.groups;
  space.heads = config.heads;
  uint32_t row = 0;
  const auto part = [&](uint32_t rows) {
    LinearDescription linear = linearLayer(module + "in_proj.", rows, decoder.hiddenSize);
    if (config.hasProjectionBias) {
      addBias(linear, module + "in_proj.");
      linear.bias->firstRow = row;
    }
    linear.weight.firstRow = row;
    row += rows;
    return linear;
  };
  const auto convolved = [&](uint32_t rows) {
    const uint32_t first = row - config.values(); // The gate is not convolved.
    ConvolvedDescription of = {
        part(rows), matrixSource(module + "conv1d.weight", rows, config.taps), std::nullopt};
    of.taps.firstRow = first;
    if (config.hasConvolutionBias) {
      of.tapsBias = vectorSource(module + "conv1d.bias", rows);
      of.tapsBias->firstRow = first;
    }
    return of;
  };
  space.gate = part(config.values());
  space.value = convolved(config.values());
  space.key = convolved(config.keys());
  space.query = convolved(config.keys());
  space.step = part(config.heads);
  space.stepBias = vectorSource(module + "dt_bias", config.heads);
  space.logRate = vectorSource(module + "A_log", config.heads);
  space.skip = vectorSource(module + "D", config.heads);
  space.outputNorm = rmsNorm(decoder, module + "norm.weight", config.values());
  space.output = linearLayer(module + "out_proj.", decoder.hiddenSize, config.values());
  if (config.hasProjectionBias)
    addBias(space.output, module + "out_proj.");
}

} // namespace moec
