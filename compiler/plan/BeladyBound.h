// The least that any cache can read on a trace. Belady's rule (evict what is needed last) is
// optimal for items of one size that may bypass the cache. An expert is made of such items: its
// bytes.
//
// The bound holds for every cache that starts with the given experts and holds at most so many
// pages between layer passes, whatever its policy knows of the future and however layers share the
// pages, with pins and prefetches. Experts that a layer pass demands may pass through on top of
// that, so staging pages do not count. A cache of whole experts may miss the bound where records
// differ in size or do not fill their pages.
#pragma once

#include "compiler/plan/RoutingTrace.h"

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

struct BeladyBound {
  uint64_t bytesRead = 0; // In prompts and while decoding.
  /// The least while decoding alone, by caches that read in prompts what the prompts demand and
  /// nothing else. A policy may read more in prompts to read less after them, so this is less than
  /// the decode steps' part of bytesRead, or the same.
  uint64_t decodeBytesRead = 0;
  /// Experts that were not there. Of experts as small as the smallest, so with records of one size
  /// it is the very number, otherwise less.
  uint64_t misses = 0;
};

/// Experts of each layer that the cache holds before the first step, as far as the pages hold them.
using HeldExperts = std::vector<std::vector<uint32_t>>;

/// recordBytes[layer][expert] are those of the trace's experts. No `start`: the cache is empty.
BeladyBound beladyBound(const RoutingTrace &trace,
                        std::span<const std::vector<uint64_t>> recordBytes, uint64_t pageBytes,
                        uint64_t poolPages, const HeldExperts &start = {});

} // namespace moec
