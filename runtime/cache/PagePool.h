// The expert cache's memory, cut into pages of one size. It knows which pages are free and nothing
// of what they hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Borrows the memory, which outlives it. One thread.
///
/// Invariant: a page is either free (its bit is set, freeCount counts it) or was handed out by
/// allocate() and not yet given back.
class PagePool {
public:
  /// As many whole pages as the memory holds. pageBytes is a power of two.
  PagePool(std::span<std::byte> memory, uint64_t pageBytes);

  uint64_t pageCount() const { return count; }
  uint64_t freePages() const { return freeCount; }

  /// Fills the list with free pages: neighbours if a run of that length is free (one read then
  /// needs few requests), otherwise what there is, in ascending order. False, and nothing taken, if
  /// fewer pages are free.
  bool allocate(std::span<std::byte *> pages);

  void release(std::span<std::byte *const> pages);

private:
  bool findRun(uint64_t length, uint64_t &first) const;
  uint64_t nextFree(uint64_t from) const;
  uint64_t nextUsed(uint64_t from) const;
  void take(uint64_t page);

  std::byte *base;
  uint64_t pageBytes;
  uint64_t count;
  uint64_t freeCount;
  std::vector<uint64_t> freeBits; // Bit p % 64 of word p / 64; bits beyond the last page are 0.
};

} // namespace moert
