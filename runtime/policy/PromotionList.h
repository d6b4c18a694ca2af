// Promotions: reads that importance asks for, not a demand. An expert that has become more
// important than one in memory is read while tokens are computed, outlives layer passes, and joins
// the experts of its layer at a planned time. When it arrived changes nothing: at that time it is
// waited for. Part of CacheMachine.
#pragma once

#include "runtime/policy/CacheDirectory.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Around a layer pass of the directory: beginPass() after the directory's; endPass() after the
/// directory's; then, as long as due() is not null, its owner waits until it is read, and takes or
/// cancels it. begin() whenever hasRoomForPrefetch(next()). What is asked for depends on demands
/// and importances alone. Allocates nothing after it was made. One thread; ids are the directory's.
///
/// Invariants: the pages of all promotions, begun or not, are within the staging pages; each is an
/// absent unit if it was not begun, else a unit that is being prefetched or complete; they are in
/// the order of their times.
class PromotionList {
public:
  struct Promotion {
    uint32_t id = 0;
    uint64_t duePass = 0; // It joins when so many layer passes have ended.
    uint32_t pages = 0;
    bool isBegun = false;
  };

  /// `rule` and the sizes are the directory's.
  PromotionList(const ExchangeRule &rule, const DirectorySize &size);

  bool exchanges() const { return rule.exchanges(); }

  /// The directory's layer pass has begun and decided. Forgets promotions that it demands. Cancels
  /// others, the last one asked for first, until its demand has room beside the rest.
  void beginPass(const CacheDirectory &directory, uint32_t layer);
  /// Promotions that the last beginPass or cancelAll cancelled after they were begun.
  std::span<const uint32_t> cancelled() const { return cancelledIds; }
  /// The directory's layer pass has ended: asks for the most important absent expert of its layer
  /// if it is the layer's turn to exchange one, if less important ones would leave for it, and if
  /// staging pages are left. Steps of several tokens exchange nothing.
  void endPass(const CacheDirectory &directory);

  bool hasNext() const { return begunCount < promotions.size(); }
  uint32_t next() const { return promotions[begunCount].id; }
  void begin() { promotions[begunCount++].isBegun = true; }

  /// The first promotion whose time has come; null if there is none.
  const Promotion *due(const CacheDirectory &directory) const;
  /// Removes a promotion; returns false if it is none.
  bool remove(uint32_t id);
  void cancelAll();

private:
  bool isTurn(const CacheDirectory &directory) const;
  /// Its place, or the number of promotions if it is none.
  size_t placeOf(uint32_t id) const;
  void removeAt(size_t place);
  void cancelLast();

  ExchangeRule rule;
  uint32_t passLayer = 0;
  std::vector<Promotion> promotions; // In the order in which they were asked for.
  size_t begunCount = 0;             // So many of the first ones are being read, or were.
  uint64_t pages = 0;                // All promotions'.
  std::vector<uint32_t> cancelledIds;
  std::vector<uint32_t> leaving; // For endPass().
};

} // namespace moert
