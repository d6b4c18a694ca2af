// Which guesses are waiting to be read and which have been read, in order; what becomes of them
// when a layer is played. As the directory, the logical half: shared by the runtime's cache and the
// compiler's simulation.
#pragma once

#include "runtime/policy/CacheDirectory.h"
#include "runtime/policy/Guesses.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Around a play of the directory: name() before it; beginPlay() behind the directory's; then the
/// owner drops refuted() and calls select(); begin() whenever hasRoomForGuess(next()). Allocates
/// nothing after it was made. One thread; ids are the directory's.
///
/// Invariant: each guess of the directory is in the order of those begun, or was refuted and is
/// still to be dropped by the owner.
class GuessList {
public:
  explicit GuessList(const DirectorySize &size);

  /// A predictor has spoken, before the play of the layer where it stands. It replaces what was
  /// said before of the same layer. Of more than kMostAhead layers at a time the rest is not heard.
  void name(const LayerGuess &guess);

  /// The directory's play has begun and decided. Guesses that it wants are adopted, other guesses
  /// of its layer are refuted; so are guesses of later layers, the last one begun first, until the
  /// demand has room beside the rest. Those not begun for this layer are forgotten.
  void beginPlay(CacheDirectory &directory, uint32_t layer);
  std::span<const uint32_t> adopted() const { return adoptedIds; }
  /// They have their pages until the owner drops them.
  std::span<const uint32_t> refuted() const { return refutedIds; }
  /// Turns what was named into guesses to be begun, the nearest layer first, in the order of their
  /// likelihood. What was named earlier for a layer and not begun is forgotten. An expert that is
  /// in memory is not read again: one that the open play does not keep becomes a guess with the
  /// pages that it has, as far as the demand leaves room for it.
  void select(CacheDirectory &directory);
  /// Guesses of the last select() whose bytes are in memory.
  std::span<const uint32_t> retained() const { return retainedIds; }

  bool hasNext() const { return !pending.empty(); }
  uint32_t next() const { return pending.front(); }
  /// Gives pages to next().
  void begin(CacheDirectory &directory);
  /// Of a guess that was begun and that the owner drops by itself.
  void forget(uint32_t id);
  /// Everything; `refuted` are then the guesses that were begun.
  void refuteAll();

private:
  struct Named {
    uint32_t layer = 0;
    GuessRule rule;
    size_t count = 0;
  };
  std::span<GuessCandidate> slot(size_t index) {
    return {&candidates[index * widestLayer], widestLayer};
  }
  uint32_t distanceTo(const CacheDirectory &directory, uint32_t id) const;
  bool isAhead(const CacheDirectory &directory, uint32_t id) const;
  void forgetPassed(const CacheDirectory &directory);

  size_t widestLayer;
  uint32_t playedLayer = 0;
  std::array<Named, kMostAhead> named;
  size_t namedCount = 0;
  std::vector<GuessCandidate> candidates; // A slot for each named.
  std::vector<uint32_t> pending, begun;   // In this order.
  std::vector<uint32_t> adoptedIds, refutedIds, retainedIds;
  std::vector<uint32_t> selected, leaving; // Of the layer that is looked at.
};

} // namespace moert
