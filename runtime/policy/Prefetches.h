// How the experts of a MoE layer are prefetched: read before its router has run, as a predictor
// expects them to be used.
#pragma once

#include "runtime/policy/EvictionScores.h"

#include <cstdint>
#include <span>

namespace moert {

enum class Predictor : uint8_t {
  kOff = 0,
  /// The layer's own router, given the router input of an earlier layer (Fate, section 3).
  kGate = 1,
  /// A table: the experts that followed those of the two MoE layers before (EdgeMoE, section 4).
  kPaths = 2,
  /// The layer's own router, given the router inputs of several layers (HOBBIT, section 3.3): each
  /// of the `ahead` MoE layers before this one predicts it, and a later prediction replaces an
  /// earlier one. A prediction reads nothing unless everything that the same layer has predicted
  /// for the layers before this one counts as in memory.
  kAdaptiveGate = 3,
};
template <>
inline constexpr EnumNames<4> kNames<Predictor> = {"none", "gate", "paths", "adaptive-gate"};

/// Whether the predictor is the layer's own router.
constexpr bool usesGate(Predictor predictor) {
  return predictor == Predictor::kGate || predictor == Predictor::kAdaptiveGate;
}

/// How many MoE layers before its turn a layer may be prefetched, at most.
constexpr uint32_t kMostAhead = 3;

/// Reads of prefetches under way at a time. Few, since a read that was begun delays the demand that
/// comes after it; two, so that the disk always has a next one. Four and six were no faster for the
/// widened bundled model, measured in turn on an NVMe disk, and on one held to 200 MB/s.
constexpr uint32_t kMostPrefetchReads = 2;

/// How the experts of one MoE layer are prefetched.
struct PrefetchRule {
  Predictor predictor = Predictor::kOff;
  uint8_t ahead = 1;       // MoE layers from the one that prefetches to this one; 1 with kPaths.
                           // With kAdaptiveGate from the first of those that do.
  uint16_t candidates = 0; // At most so many of the likeliest experts are considered,
  uint16_t reads = 0;      // and at most so many of those that are absent are read.
  uint32_t minProbability = 0; // In units of kFixedPointOne: less likely experts are not read.

  template <typename Self, typename Visit> static void describe(Self &rule, Visit &&visit) {
    visit("predictor"_field, rule.predictor);
    visit("ahead"_field, rule.ahead, within(1, kMostAhead));
    visit("candidates"_field, rule.candidates);
    visit("reads"_field, rule.reads);
    visit("min_probability"_field, rule.minProbability, kFixedPoint);
  }
  bool operator==(const PrefetchRule &) const = default;

  /// Whether the layer so many MoE layers before this one predicts it.
  constexpr bool predictsFrom(uint32_t distance) const {
    return predictor != Predictor::kOff &&
           (distance == ahead || (predictor == Predictor::kAdaptiveGate && distance < ahead));
  }
};

/// Whether any layer is prefetched. `rules`: one for each layer, or none where nothing is
/// prefetched.
inline bool prefetchesAnything(std::span<const PrefetchRule> rules) {
  for (const PrefetchRule &rule : rules)
    if (rule.predictor != Predictor::kOff)
      return true;
  return false;
}

/// An expert of the prefetched layer with its probability, in units of kFixedPointOne.
struct PrefetchCandidate {
  uint32_t expert = 0;
  uint32_t probability = 0;
};

/// All slices of a record, however many it has.
constexpr uint16_t kAllSlices = UINT16_MAX;

/// The prediction for a layer.
struct LayerPrefetch {
  uint32_t layer = 0;
  PrefetchRule rule;
  std::span<const PrefetchCandidate> candidates; // Likeliest first, ties to the lowest index.
  /// Where low slices are held alone (CacheRules::baseSlices), and of records with separate copies:
  /// with how many each is read; 0: it is not. Empty: all with all of them.
  std::span<const uint16_t> slices = {};
};

} // namespace moert
