// A small model made up of random numbers, written as an artifact: what the engine's tests play. It
// has no meaning, but all of the parts: attention with grouped heads, rotation, routed experts of
// several tokens each, a shared gate, quantized and float weights.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <string>
#include <vector>

namespace moert::test {

constexpr uint32_t kVocabulary = 96, kHidden = 64, kLayers = 3, kExperts = 8, kTopK = 3,
                   kExpertWidth = 48, kHeads = 4, kKvHeads = 2, kHeadDim = 16;

struct SyntheticOptions {
  WeightKind experts = WeightKind::kInt4;
  WeightKind residents = WeightKind::kInt8;
  uint32_t seed = 1;
  /// The planes of each expert in turn; empty: one slice of `experts`, which then stand for the
  /// kind of the inputs alone. Codes are the leading bits of the same numbers, whatever the planes.
  std::vector<std::vector<WeightKind>> planes = {};
  uint32_t hidden = kHidden;
  float logitScale = 0.5f;
  bool repeatsQuery = false;    // Each layer's query is computed twice, to the same place.
  bool gathersFloats = false;   // The experts' input is floats, whatever the experts are.
  bool routesOutside = false;   // Routes and guesses are said to belong to no layer.
  bool biasesGuesses = false;   // Gates have biases, which routers have not.
  bool sharesScores = false;    // The guesses of a layer have their scores in one place.
  std::vector<Plan> plans = {}; // Empty: one that caches everything.
  /// The section of activation paths; empty: none.
  std::vector<std::byte> paths = {};
};

/// A section of activation paths in which expert e of every layer follows expert `before[e]` of the
/// layer before, and nothing of the one before that.
std::vector<std::byte> pathsOf(const std::vector<uint32_t> &before);

/// Writes it to `path`; what was written, as the reader will give it.
Result<Artifact> writeSyntheticModel(const std::string &path, const SyntheticOptions &options);

} // namespace moert::test
