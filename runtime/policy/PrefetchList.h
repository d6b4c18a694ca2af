// Which prefetches wait to be read and which were begun, in order, and which of them a layer pass
// cancels. Part of CacheMachine.
#pragma once

#include "runtime/policy/CacheDirectory.h"
#include "runtime/policy/Prefetches.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Around a layer pass of the directory: nominate() before it; beginPass() after the directory's;
/// then the owner applies the events of the cancelled and the demanded units and calls select();
/// begin() whenever hasRoomForPrefetch(next()). Allocates nothing after it was made. One thread;
/// ids are the directory's.
///
/// Invariant: each prefetch of the directory was begun here, or was cancelled and is being read.
class PrefetchList {
public:
  explicit PrefetchList(const DirectorySize &size);

  /// Records prefetch candidates for a later layer, before the layer pass of the layer that
  /// predicts them. They replace what was named before for the same layer. Layers beyond kMostAhead
  /// at a time are ignored.
  void nominate(const CacheDirectory &directory, const LayerPrefetch &prefetch);

  /// The directory's layer pass has begun and decided. Cancels prefetches of its layer that it does
  /// not demand, and prefetches of later layers, the last one begun first, until the demand has
  /// room beside the rest. Forgets those of its layer that were not begun.
  void beginPass(const CacheDirectory &directory, uint32_t layer);
  std::span<const uint32_t> cancelled() const { return cancelledIds; }
  /// Turns what was named into prefetches to be begun, the nearest layer first, then the likeliest.
  /// With kAdaptiveGate only as long as everything that was named for nearer layers counts as in
  /// memory (countsAsPresent); what was selected earlier for a layer beyond that stays.
  /// Otherwise forgets what was named earlier for the layer and not begun. An expert in memory is
  /// not read again: if the open layer pass does not keep it, it is retained as a prefetch with its
  /// pages, as far as the demand leaves room. Returns how many were retained.
  uint32_t select(CacheDirectory &directory);

  /// The slices with which its layer's prefetch rule selects it, if it is among the candidates that
  /// the rule reads, given what was held when they were named; 0 otherwise. Does not depend on
  /// whether there was room or time for the read, so that decisions may depend on it. Valid until
  /// the next layer pass of its layer.
  uint16_t slicesExpected(uint32_t id) const { return expected[id]; }

  bool hasNext() const { return !pending.empty(); }
  uint32_t next() const { return pending.front(); }
  /// How many first slices of next()'s record are read.
  uint16_t slicesOfNext() const { return slicesToRead[pending.front()]; }
  /// next() gets pages now.
  void begin();
  /// Removes a prefetch that was begun and whose read failed.
  void forget(uint32_t id);
  /// Cancels everything; `cancelled` are then the prefetches that were begun.
  void cancelAll();

private:
  struct Named {
    uint32_t layer = 0;
    PrefetchRule rule;
    size_t count = 0;
  };
  /// A candidate of the list, in units of the directory.
  struct Candidate {
    uint32_t id = 0;
    uint32_t probability = 0;
    uint16_t slices = 0; // Not 0.
  };
  std::span<const Candidate> candidatesOf(size_t index) const {
    return std::span(candidates).subspan(index * widestLayer, named[index].count);
  }
  uint32_t distanceTo(const CacheDirectory &directory, uint32_t layer) const;
  bool isAhead(const CacheDirectory &directory, uint32_t layer) const;
  bool countsAsPresent(const CacheDirectory &directory, const Named &prefetch,
                       std::span<const Candidate> likeliest) const;
  uint32_t selectFor(CacheDirectory &directory, const Named &prefetch,
                     std::span<const Candidate> likeliest);
  void choose(const CacheDirectory &directory, const Named &prefetch,
              std::span<const Candidate> likeliest);
  void expect(const CacheDirectory &directory, const Named &prefetch,
              std::span<const Candidate> likeliest);
  void expectNothing(const CacheDirectory &directory, uint32_t layer);

  size_t widestLayer;
  uint32_t passLayer = 0;
  std::array<Named, kMostAhead> named;
  size_t namedCount = 0;
  std::vector<Candidate> candidates;    // widestLayer for each named.
  std::vector<uint32_t> pending, begun; // In this order.
  std::vector<uint32_t> cancelledIds;
  std::vector<uint32_t> toRead, leaving; // For select(), layer by layer.
  std::vector<uint16_t> expected;        // By id: slices, or 0.
  std::vector<uint16_t> slicesToRead;    // By id, of those that are pending.
};

} // namespace moert
