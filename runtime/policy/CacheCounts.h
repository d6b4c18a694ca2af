// What the expert cache counts, in a run and in every replay of one.
#pragma once

#include <cstdint>

namespace moert {

/// Counts of one layer pass, or sums. What happens between two layer passes counts with the later
/// one.
struct CacheCounts {
  uint64_t hits = 0;   // Demanded experts that were resident when the layer pass began.
  uint64_t misses = 0; // The other demanded experts.
  uint64_t lowHits = 0, lowMisses = 0; // Demanded with fewer slices than all.
  uint64_t evictions = 0;              // Without those of upper slices alone.
  uint64_t bytesRead = 0;              // Includes prefetches and promotions.
  uint64_t prefetchesRead = 0;
  uint64_t prefetchBytes = 0;
  uint64_t prefetchesRetained = 0; // Prefetches without a read: the expert was to be evicted.
  uint64_t useful = 0;             // Misses that were prefetches, complete or being read.
  uint64_t ready = 0;   // Hits, and useful prefetches that were complete when the pass began.
  uint64_t stalled = 0; // Demanded experts that were waited for with no other one ready.
  /// Prefetches, read or retained, and promotions, whose pages were given back unused.
  uint64_t cancelled = 0;
  uint64_t promotionsRead = 0;
  uint64_t promoted = 0; // Promotions that took the place of less important experts.

  CacheCounts &operator+=(const CacheCounts &other) {
    hits += other.hits;
    misses += other.misses;
    lowHits += other.lowHits;
    lowMisses += other.lowMisses;
    evictions += other.evictions;
    bytesRead += other.bytesRead;
    prefetchesRead += other.prefetchesRead;
    prefetchBytes += other.prefetchBytes;
    prefetchesRetained += other.prefetchesRetained;
    useful += other.useful;
    ready += other.ready;
    stalled += other.stalled;
    cancelled += other.cancelled;
    promotionsRead += other.promotionsRead;
    promoted += other.promoted;
    return *this;
  }
  bool operator==(const CacheCounts &) const = default;
};

} // namespace moert
