// The pages of an expert cache by their numbers: which are free, and which ones a record gets. It
// knows nothing of what they hold nor of where they lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// One thread.
///
/// Invariant: a page is either free (its bit is set, freeCount counts it) or was handed out by
/// allocate() and not yet given back.
class PagePool {
public:
  /// At most UINT32_MAX.
  explicit PagePool(uint64_t pages);

  uint64_t pageCount() const { return count; }
  uint64_t freePages() const { return freeCount; }

  /// Fills the list with free pages: neighbours if a run of that length is free (one read then
  /// needs few requests), otherwise what there is, in ascending order. False, and nothing taken, if
  /// fewer pages are free.
  bool allocate(std::span<uint32_t> pages);

  void release(std::span<const uint32_t> pages);

private:
  bool findRun(uint64_t length, uint64_t &first) const;
  uint64_t nextFree(uint64_t from) const;
  uint64_t nextUsed(uint64_t from) const;
  void take(uint64_t page);

  uint64_t count;
  uint64_t freeCount;
  std::vector<uint64_t> freeBits; // Bit p % 64 of word p / 64; bits beyond the last page are 0.
};

} // namespace moert
