// What was learned of a model on text: which experts its routers chose and what the experts were
// given. Calibration writes it once; every later compilation of the same checkpoint may use it.
// profile.md is the document of the file.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moec {

/// A text that calibration read. Hashes are XXH3-64 of the file's bytes.
struct CalibrationText {
  std::string name; // The file's name without its directory.
  uint64_t hash = 0;
  uint64_t bytes = 0;
  uint32_t windows = 0; // Taken from it.
};

struct CalibrationInfo {
  uint64_t checkpointHash = 0; // Of the configuration, the tensors' headers and the tokenizer.
  uint64_t seed = 0;
  uint32_t windowTokens = 0;
  uint32_t hiddenSize = 0;
  uint32_t vocabularySize = 0;
  std::vector<CalibrationText> texts;
  std::vector<int32_t> tokens; // [windows][windowTokens], the texts' windows in their order.
  struct MoeLayer {
    uint32_t layer = 0; // The model's layer.
    uint32_t experts = 0;
    uint32_t topK = 0;
  };
  std::vector<MoeLayer> moeLayers;

  uint32_t windows() const { return static_cast<uint32_t>(tokens.size() / windowTokens); }
};

/// What the experts of one layer saw, token after token.
struct LayerInputs {
  uint32_t tokens = 0;
  std::vector<float> rows;      // [tokens][hiddenSize]: the input of the router and the experts.
  std::vector<int32_t> experts; // [tokens][topK], best first.
  std::vector<float> weights;   // [tokens][topK], as the experts' outputs are multiplied.
};

/// An opened profile. Layers are read when they are asked for: all of them may exceed the memory.
/// Reading from several threads is safe.
class CalibrationProfile {
public:
  /// Refuses files that are not whole, of another version, or inconsistent in themselves.
  static moert::Result<std::unique_ptr<CalibrationProfile>> open(const std::string &path);
  ~CalibrationProfile();

  const CalibrationInfo &info() const;
  /// The index counts MoE layers from 0.
  moert::Result<LayerInputs> layerInputs(size_t moeLayer) const;

private:
  struct Impl;
  explicit CalibrationProfile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moec
