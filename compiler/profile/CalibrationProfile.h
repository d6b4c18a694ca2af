// What was learned of a model on text: which experts its routers chose and what the experts were
// given. Calibration writes it once; every later compilation of the same checkpoint may use it.
// docs/calibration-profile.md is the document of the file.
#pragma once

#include "compiler/profile/CheckpointHash.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moert {
class ByteSource;
}

namespace moec {

/// A text that calibration read. Hashes are XXH3-64 of the file's bytes.
struct CalibrationText {
  std::string name; // The file's name without its directory.
  uint64_t hash = 0;
  uint64_t bytes = 0;
  uint32_t windows = 0; // Taken from it.
  friend bool operator==(const CalibrationText &, const CalibrationText &) = default;
};

/// How many of the best experts of a layer are put down with their probabilities for each token:
/// twice as many as are chosen, at least four more. What is likely but not chosen decides between
/// experts that may stand in for each other; beyond that lies nothing that a policy would take.
constexpr uint32_t candidatesOf(uint32_t experts, uint32_t topK) {
  uint32_t wished = topK + (topK > 4 ? topK : 4);
  return wished < experts ? wished : experts;
}

/// Layers ahead whose routers are asked about a layer's input: 1 to 3.
constexpr uint32_t kPredictionDepths = 3;

struct CalibrationInfo {
  CheckpointHash checkpointHash;
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
    std::vector<uint64_t> counts;   // Per expert: tokens that chose it.
    std::vector<double> weightSums; // Per expert: of their weights.
    friend bool operator==(const MoeLayer &, const MoeLayer &) = default;
  };
  std::vector<MoeLayer> moeLayers;

  uint32_t windows() const { return static_cast<uint32_t>(tokens.size() / windowTokens); }
  friend bool operator==(const CalibrationInfo &, const CalibrationInfo &) = default;
};

/// What the experts of one layer saw, token after token.
struct LayerInputs {
  uint32_t tokens = 0;
  std::vector<float> rows;      // [tokens][hiddenSize]: the input of the router and the experts.
  std::vector<int32_t> experts; // [tokens][topK], best first.
  std::vector<float> weights;   // [tokens][topK], as the experts' outputs are multiplied.
};

/// The most probable experts of a router, token after token: [tokens][perToken], best first, ties
/// to the lowest index. Probabilities are the softmax over all experts of the layer.
struct ExpertCandidates {
  uint32_t perToken = 0;
  std::vector<uint16_t> experts;
  std::vector<float> probabilities;
  friend bool operator==(const ExpertCandidates &, const ExpertCandidates &) = default;
};

/// How one layer routed, token after token.
struct LayerTrace {
  uint32_t topK = 0;
  std::vector<uint16_t> experts; // [tokens][topK], chosen, best first.
  std::vector<float> weights;    // [tokens][topK]
  std::vector<float> inputNorms; // [tokens]: the Euclidean length of the router's input.
  ExpertCandidates candidates;   // candidatesOf() this layer.
  /// What the router of the MoE layer 1, 2, 3 further on says of this layer's router input; shorter
  /// where the model ends.
  std::vector<ExpertCandidates> predictions;
  friend bool operator==(const LayerTrace &, const LayerTrace &) = default;
};

/// An opened profile. Layers are read when they are asked for: all of them may exceed the memory.
/// Reading from several threads is safe.
class CalibrationProfile {
public:
  /// Refuses files that are not whole, of another version, or inconsistent in themselves.
  static moert::Result<std::unique_ptr<CalibrationProfile>> open(const std::string &path);
  /// The same of a source that outlives the profile.
  static moert::Result<std::unique_ptr<CalibrationProfile>> open(const moert::ByteSource &source);
  ~CalibrationProfile();

  const CalibrationInfo &info() const;
  /// The index counts MoE layers from 0.
  moert::Result<LayerInputs> layerInputs(size_t moeLayer) const;
  /// A tenth of the size of the inputs, or less.
  moert::Result<LayerTrace> layerTrace(size_t moeLayer) const;

private:
  struct Impl;
  explicit CalibrationProfile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moec
