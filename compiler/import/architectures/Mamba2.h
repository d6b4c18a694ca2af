// Mamba-2 mixers as Granite 4 and Nemotron-H have them: one product of the input for gate, value,
// key, query and step, and one convolution over value, key and query. The names of the config's
// keys differ.
#pragma once

#include "compiler/import/architectures/LlamaDecoder.h"

namespace moec {

/// The names of a family's keys.
struct Mamba2Keys {
  std::string_view heads, groups, stateDim, taps, convolutionBias;
};

struct Mamba2Config {
  uint32_t heads = 0, headDim = 0, groups = 0, stateDim = 0, taps = 0;
  bool hasConvolutionBias = true;
  bool hasProjectionBias = false; // The first and the last product have one.

  uint32_t values() const { return heads * headDim; }
  uint32_t keys() const { return groups * stateDim; }
};

/// Reads and checks these keys; the family reads headDim and hasProjectionBias itself.
moert::Result<Mamba2Config> readMamba2(const ConfigObject &config, const Mamba2Keys &names,
                                       uint32_t headDim);

/// Replaces a layer's attention by a mixer whose tensor names begin with `module`.
void describeMamba2(const Mamba2Config &config, const DecoderConfig &decoder,
                    const std::string &module, LayerDescription &layer);

} // namespace moec
