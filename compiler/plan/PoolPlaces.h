// Which pages of the cache's pool the records of a replay lie in, and how long ago each page was
// read into before: a disk may read faster into memory that it has just read into. Pages are given
// by the runtime's own pool (runtime/policy/PagePool.h).
#pragma once

#include "compiler/plan/DeviceTimes.h"
#include "runtime/memory/PagePool.h"

#include <cstdint>
#include <vector>

namespace moec {

/// Where all memory of a table is alike, nothing is kept.
///
/// Invariant: the lists of experts that have places and the pool's free pages are all pages.
class PoolPlaces {
public:
  PoolPlaces(const ReadTable &reads, uint64_t pages, size_t experts);

  /// Gives an expert as many pages as are missing to so many, for a read of `bytes` that begins.
  /// There are enough. Returns the factor on the table's rates for the read: 1 without new pages.
  double take(uint32_t id, uint64_t pages, uint64_t bytes);
  /// Takes back all but the first pages.
  void giveBack(uint32_t id, uint64_t left);

private:
  ReusedFactors reusedFactors;
  moert::PagePool pool;
  std::vector<std::vector<uint32_t>> pagesOf; // By expert.
  std::vector<uint64_t> readAt;          // By page: `bytesRead` when its last read began; 0: none.
  uint64_t bytesRead = kLongUnusedBytes; // By all reads so far, as if there had been many before.
};

} // namespace moec
