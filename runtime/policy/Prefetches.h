// Which experts of a MoE layer are read before its router has run. A predictor says how likely each
// expert is; which of them are worth a read is decided here, by a pure function that the runtime's
// cache and the compiler's simulation share.
#pragma once

#include "runtime/policy/CacheDirectory.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

enum class Predictor : uint8_t {
  kOff = 0,
  kGate =
      1, // The layer's own router, given the router input of an earlier layer (Fate, section 3).
  kPaths =
      2, // A table: what followed the experts of the two MoE layers before (EdgeMoE, section 4).
};

/// How many MoE layers before its turn a layer may be prefetched, at most.
constexpr uint32_t kMostAhead = 3;

/// Reads of prefetches under way at a time. Few, since a read that was begun delays the demand that
/// comes after it; two, so that the disk has the next one at hand. Four and six were no faster: of
/// the widened bundled model on an NVMe disk, alternating, and on one held to 200 MB/s.
constexpr uint32_t kMostPrefetchReads = 2;

/// How the experts of one MoE layer are prefetched.
struct PrefetchRule {
  Predictor predictor = Predictor::kOff;
  uint8_t ahead = 1;       // MoE layers from the one that prefetches to this one; 1 with kPaths.
  uint16_t candidates = 0; // So many of the likeliest experts are looked at,
  uint16_t reads = 0;      // and so many of those that are absent are read, at most.
  uint32_t minProbability = 0; // Of kFixedPointOne: experts that are less likely are not read.
  friend bool operator==(const PrefetchRule &, const PrefetchRule &) = default;
};

/// Whether any layer is prefetched. `rules`: one for each layer, or none where nothing is
/// prefetched.
bool prefetchesAnything(std::span<const PrefetchRule> rules);

/// An expert of the prefetched layer with its probability, in units of kFixedPointOne.
struct PrefetchCandidate {
  uint32_t expert = 0;
  uint32_t probability = 0;
};

/// What a predictor said of a layer.
struct LayerPrefetch {
  uint32_t layer = 0;
  PrefetchRule rule;
  std::span<const PrefetchCandidate> candidates; // Likeliest first, ties to the lowest index.
};

/// Of the candidates (likeliest first, ties to the lowest index) appends the directory's ids: to
/// `absent` those to be read, experts that are neither in memory nor have pages as prefetches; to
/// `leaving` those that are in memory and that the open layer pass does not keep. They need no read
/// and do not count as one.
void selectPrefetches(const PrefetchRule &rule, const CacheDirectory &directory, uint32_t layer,
                      std::span<const PrefetchCandidate> candidates, std::vector<uint32_t> &absent,
                      std::vector<uint32_t> &leaving);

} // namespace moert
