// The results of calibrating a model on text: the experts that its routers chose, and the inputs of
// the experts. Calibration writes the file once; every later compile of the same checkpoint may use
// it. docs/calibration-profile.md documents the file.
#pragma once

#include "compiler/profile/CheckpointHash.h"
#include "compiler/quantize/Moments.h"
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

/// A calibration text. Hashes are XXH3-64 of the file's bytes.
struct CalibrationText {
  std::string name; // File name without its directory.
  uint64_t hash = 0;
  uint64_t bytes = 0;
  uint32_t windows = 0; // Windows taken from it.
  friend bool operator==(const CalibrationText &, const CalibrationText &) = default;
};

/// Number of a layer's most probable experts whose probabilities are kept per token: twice as many
/// as are chosen, and at least four more. Policies that substitute experts use the likely ones that
/// were not chosen; further ones are too improbable for any policy.
constexpr uint32_t candidatesOf(uint32_t experts, uint32_t topK) {
  uint32_t wished = topK + (topK > 4 ? topK : 4);
  return wished < experts ? wished : experts;
}

/// Number of later layers whose routers are evaluated on a layer's input.
constexpr uint32_t kPredictionDepths = 3;

struct ProfileHeader;

struct CalibrationInfo {
  CheckpointHash checkpointHash;
  uint64_t seed = 0;
  uint32_t windowTokens = 0;
  uint32_t hiddenSize = 0;
  uint32_t vocabularySize = 0;
  std::vector<CalibrationText> texts;
  std::vector<int32_t> tokens; // [windows][windowTokens], windows in the order of the texts.
  struct MoeLayer {
    uint32_t layer = 0; // The model's layer number.
    uint32_t experts = 0;
    uint32_t topK = 0;
    std::vector<uint64_t> counts;   // Per expert: number of tokens that chose it.
    std::vector<double> weightSums; // Per expert: sum of its weights.
    uint32_t hiddenSize = 0;        // Elements of its rows; 0: the profile's.
    friend bool operator==(const MoeLayer &, const MoeLayer &) = default;
  };
  std::vector<MoeLayer> moeLayers;
  /// A row that products with resident matrices read.
  struct ResidentInput {
    uint32_t layer = 0;               // The model's layer number; kAfterLayers: the head.
    uint32_t cols = 0;                // Its elements.
    std::vector<std::string> weights; // The matrices, by their names in an artifact.
    friend bool operator==(const ResidentInput &, const ResidentInput &) = default;
  };
  std::vector<ResidentInput> residentInputs; // In the order of the layers.

  /// Elements of a row of the MoE layer.
  uint32_t widthOf(size_t moeLayer) const {
    const uint32_t own = moeLayers[moeLayer].hiddenSize;
    return own == 0 ? hiddenSize : own;
  }
  uint32_t windows() const { return static_cast<uint32_t>(tokens.size() / windowTokens); }
  friend bool operator==(const CalibrationInfo &, const CalibrationInfo &) = default;
};

constexpr uint32_t kAfterLayers = UINT32_MAX;

/// Moments of resident inputs are of every n-th token, so that there are at most this many: two per
/// dimension of a block.
constexpr uint64_t kResidentMomentTokens = 2 * kMomentInputs;
constexpr uint64_t residentMomentStep(uint64_t tokens) {
  return tokens / kResidentMomentTokens + (tokens % kResidentMomentTokens != 0);
}

/// The inputs of one layer's experts, token by token.
struct LayerInputs {
  uint32_t tokens = 0;
  std::vector<float> rows; // [tokens][width of the layer]: the input of the router and the experts.
  std::vector<int32_t> experts; // [tokens][topK], best first.
  std::vector<float> weights;   // [tokens][topK], the factors of the experts' outputs.
};

/// The most probable experts of a router, token by token: [tokens][perToken], best first, ties in
/// order of index. Probabilities are the softmax over all experts of the layer.
struct ExpertCandidates {
  uint32_t perToken = 0;
  std::vector<uint16_t> experts;
  std::vector<float> probabilities;
  friend bool operator==(const ExpertCandidates &, const ExpertCandidates &) = default;
};

/// One layer's routing, token by token.
struct LayerTrace {
  uint32_t topK = 0;
  std::vector<uint16_t> experts; // [tokens][topK], the chosen experts, best first.
  std::vector<float> weights;    // [tokens][topK]
  std::vector<float> inputNorms; // [tokens]: the Euclidean norm of the router's input.
  ExpertCandidates candidates;   // candidatesOf() experts per token.
  /// The candidates of the routers 1, 2 and 3 MoE layers later, computed from this layer's router
  /// input; fewer at the model's end and before a layer of another width.
  std::vector<ExpertCandidates> predictions;
  friend bool operator==(const LayerTrace &, const LayerTrace &) = default;
};

/// An open profile. Layers are read on demand, since all of them may exceed the memory.
/// Thread-safe.
class CalibrationProfile {
public:
  /// Refuses files that are incomplete, of another version, or inconsistent.
  static moert::Result<std::unique_ptr<CalibrationProfile>> open(const std::string &path);
  /// The same for a source, which must outlive the profile.
  static moert::Result<std::unique_ptr<CalibrationProfile>> open(const moert::ByteSource &source);
  /// One that is being written (ProfileWriter::unfinished()): only its finished layers and inputs
  /// may be read.
  static moert::Result<std::unique_ptr<CalibrationProfile>> openUnfinished(const std::string &path,
                                                                           ProfileHeader header);
  ~CalibrationProfile();

  const CalibrationInfo &info() const;
  /// moeLayer counts MoE layers from 0. Refuses rows that were dropped, as damaged ones.
  moert::Result<LayerInputs> layerInputs(size_t moeLayer) const;
  /// At most a tenth of the size of the inputs.
  moert::Result<LayerTrace> layerTrace(size_t moeLayer) const;
  /// The moments of info().residentInputs[input].
  moert::Result<Moments> residentMoments(size_t input) const;

private:
  struct Impl;
  explicit CalibrationProfile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace moec
