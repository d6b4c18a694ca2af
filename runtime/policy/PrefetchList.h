// Which prefetches are waiting to be read and which have been read, in order; what becomes of them
// when a layer is executed. As the directory, the logical half: shared by the runtime's cache and
// the compiler's simulation.
#pragma once

#include "runtime/policy/CacheDirectory.h"
#include "runtime/policy/Prefetches.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Around a layer pass of the directory: name() before it; beginPass() behind the directory's; then
/// the owner drops cancelled() and calls select(); begin() whenever hasRoomForPrefetch(next()).
/// Allocates nothing after it was made. One thread; ids are the directory's.
///
/// Invariant: each prefetch of the directory is in the order of those begun, or was cancelled and
/// is still to be dropped by the owner.
class PrefetchList {
public:
  explicit PrefetchList(const DirectorySize &size);

  /// A predictor has spoken, before the layer pass of the layer where it stands. It replaces what
  /// was said before of the same layer. Of more than kMostAhead layers at a time the rest is not
  /// heard.
  void name(const LayerPrefetch &prefetch);

  /// The directory's execute has begun and decided. Prefetches that it wants are useful, other
  /// prefetches of its layer are cancelled; so are prefetches of later layers, the last one begun
  /// first, until the demand has room beside the rest. Those not begun for this layer are
  /// forgotten.
  void beginPass(CacheDirectory &directory, uint32_t layer);
  std::span<const uint32_t> useful() const { return usefulIds; }
  /// They have their pages until the owner drops them.
  std::span<const uint32_t> cancelled() const { return cancelledIds; }
  /// Turns what was named into prefetches to be begun, the nearest layer first, in the order of
  /// their likelihood. What was named earlier for a layer and not begun is forgotten. An expert
  /// that is in memory is not read again: one that the open layer pass does not keep becomes a
  /// prefetch with the pages that it has, as far as the demand leaves room for it.
  void select(CacheDirectory &directory);
  /// Prefetches of the last select() whose bytes are in memory.
  std::span<const uint32_t> retained() const { return retainedIds; }

  bool hasNext() const { return !pending.empty(); }
  uint32_t next() const { return pending.front(); }
  /// Gives pages to next().
  void begin(CacheDirectory &directory);
  /// Of a prefetch that was begun and that the owner drops by itself.
  void forget(uint32_t id);
  /// Everything; `cancelled` are then the prefetches that were begun.
  void cancelAll();

private:
  struct Named {
    uint32_t layer = 0;
    PrefetchRule rule;
    size_t count = 0;
  };
  std::span<PrefetchCandidate> slot(size_t index) {
    return {&candidates[index * widestLayer], widestLayer};
  }
  uint32_t distanceTo(const CacheDirectory &directory, uint32_t id) const;
  bool isAhead(const CacheDirectory &directory, uint32_t id) const;
  void forgetPassed(const CacheDirectory &directory);

  size_t widestLayer;
  uint32_t passLayer = 0;
  std::array<Named, kMostAhead> named;
  size_t namedCount = 0;
  std::vector<PrefetchCandidate> candidates; // A slot for each named.
  std::vector<uint32_t> pending, begun;      // In this order.
  std::vector<uint32_t> usefulIds, cancelledIds, retainedIds;
  std::vector<uint32_t> selected, leaving; // Of the layer that is looked at.
};

} // namespace moert
