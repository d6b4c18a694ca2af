// Allocates the pages of an expert cache by number: tracks which are free. The content of the pages
// and their addresses belong to others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moert {

/// Used by one thread.
///
/// Invariant: a page is either free (its bit is set, freeCount counts it) or was handed out by
/// allocate() or claim() and not freed yet.
class PagePool {
public:
  /// pages: at most UINT32_MAX.
  explicit PagePool(uint64_t pages);

  uint64_t pageCount() const { return count; }
  uint64_t freePages() const { return freeCount; }

  /// Fills the list with free pages: adjacent ones if a run of that length is free (a read then
  /// needs few requests), otherwise any free pages in ascending order. Returns false and takes
  /// nothing if fewer pages are free.
  bool allocate(std::span<uint32_t> pages);

  /// Takes exactly these pages, which are free.
  void claim(std::span<const uint32_t> pages);

  void release(std::span<const uint32_t> pages);

private:
  bool findRun(uint64_t length, uint64_t &first) const;
  uint64_t nextFree(uint64_t from) const;
  uint64_t nextUsed(uint64_t from) const;
  bool isFree(uint64_t page) const;
  void take(uint64_t page);

  uint64_t count;
  uint64_t freeCount;
  std::vector<uint64_t> freeBits; // Bit p % 64 of word p / 64; bits beyond the last page are 0.
};

} // namespace moert
