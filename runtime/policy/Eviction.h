// Which expert leaves memory when its layer holds more than its share. A pure function: the
// runtime's cache and the compiler's simulation call the same one. No clock, no state, no page in
// sight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace moert {

enum class EvictionPolicy {
  kLru, // Least recently used first.
};

/// An expert of one layer that may be evicted.
struct EvictionCandidate {
  uint32_t expert = 0;
  /// The logical time of its last use; the layer's play it was last wanted in, not the wall clock.
  uint64_t lastUse = 0;
  /// Its place among the experts of that play, 0 being the most popular one.
  uint32_t rank = 0;
};

/// The index of the candidate to evict; there is at least one. Equal last uses: the highest rank
/// (least popular) goes first, then the lowest expert, so that the choice depends on nothing else.
size_t chooseVictim(EvictionPolicy policy, std::span<const EvictionCandidate> candidates);

} // namespace moert
