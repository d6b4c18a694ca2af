// The least that any cache can read on a trace. Belady's rule (let go what is needed last) is
// optimal for items of one size that may bypass the cache; experts are made of such items, their
// bytes.
//
// What is bounded: every policy that holds at most so many pages between plays, whatever it knows
// of the future, however the pages are shared among layers, with whole experts, pins, start
// contents that are counted as reads, and prefetches. What a play wants may pass through on top of
// that, so that transit pages do not count. A cache that holds whole experts only may not reach it
// where records differ in size or do not fill the pages.
#pragma once

#include "compiler/plan/RoutingTrace.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

struct BeladyBound {
  uint64_t bytesRead = 0;
  /// Of them, at plays of one token. What is bounded is the whole: a policy may read more in
  /// prompts and less behind them.
  uint64_t decodeBytesRead = 0;
  /// Experts that were not there. Of experts as small as the smallest, so with records of one size
  /// it is the very number, otherwise less.
  uint64_t misses = 0;
};

enum class BoundStart {
  kEmpty,
  kBest, // With what suits the trace best, for nothing.
};

/// recordBytes[layer][expert] are those of the trace's experts.
BeladyBound beladyBound(const RoutingTrace &trace,
                        std::span<const std::vector<uint64_t>> recordBytes, uint64_t pageBytes,
                        uint64_t poolPages, BoundStart start = BoundStart::kEmpty);

} // namespace moec
