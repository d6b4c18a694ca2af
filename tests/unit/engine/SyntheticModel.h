// A small model of random numbers, written as an artifact for the engine's tests. Its output has no
// meaning, but it has all parts: attention with grouped heads, rotation, routed experts of several
// tokens each, a shared gate, quantized and float weights.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/format/Artifact.h"

#include <optional>
#include <string>
#include <vector>

namespace moert::test {

constexpr uint32_t kVocabulary = 96, kHidden = 64, kLayers = 3, kExperts = 8, kTopK = 3,
                   kExpertWidth = 48, kHeads = 4, kKvHeads = 2, kHeadDim = 16;

struct SyntheticOptions {
  WeightKind experts = WeightKind::kInt4;
  WeightKind residents = WeightKind::kInt8;
  uint32_t seed = 1;
  /// The kinds of each expert's slices in turn; empty: one slice of `experts`; otherwise `experts`
  /// only gives the kind of the inputs. Codes are the leading bits of the same numbers.
  std::vector<std::vector<WeightKind>> slices = {};
  /// The same for down, where it has other slices.
  std::vector<std::vector<WeightKind>> downSlices = {};
  /// Slices of a low copy of each expert; its codes are those of a model with these slices alone.
  std::vector<WeightKind> lowCopy = {};
  bool hasZeroExperts = false; // All weights of the experts but those of low copies are 0.
  uint32_t hidden = kHidden;
  float logitScale = 0.5f;
  std::optional<Rope> rope = {}; // Instead of the usual one.
  bool repeatsQuery = false;     // Each layer's query is computed twice, into the same buffer.
  bool routesOutside = false;    // Route and predict instructions belong to no layer.
  bool biasesPrefetches = false; // Gates have biases, which routers do not have.
  bool sharesScores = false;     // The predictions of a layer share one buffer of scores.
  bool hasStates = false;        // Queries pass through a convolution and a delta rule.
  KvKind kvKind = KvKind::kF32;
  std::vector<Plan> plans = {}; // Empty: one plan that caches everything.
  MissRule miss = {};           // The rule in that plan.
  /// The section of activation-path tables; empty: none.
  std::vector<std::byte> paths = {};
  /// The tokenizer's table; empty: none.
  std::vector<std::byte> tokenizer = {};
  bool hasHadamard = false; // In the experts, where `experts` is quantized.
  /// Experts are f32, of the values that int8 experts of the same numbers have, with hasHadamard
  /// those whose transform these store.
  bool hasValuesOfInt8 = false;
};

/// A section of activation-path tables in which expert e of every layer follows expert `before[e]`
/// of the layer before, independent of the layer before that.
std::vector<std::byte> pathsOf(const std::vector<uint32_t> &before);

/// Writes the model to `path`; returns the artifact as the reader will return it.
Result<Artifact> writeSyntheticModel(const std::string &path, const SyntheticOptions &options);

} // namespace moert::test
