// Which pages of its record an expert has in memory, by the slices that it has. A page keeps its
// place: page k holds the bytes of the record from k pages on, so the pages of slices that are not
// there are missing in between.
#pragma once

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cstdint>

namespace moert {

/// The pages [first, end) of a record.
struct PageRange {
  uint32_t first = 0, end = 0;
  uint32_t count() const { return end - first; }
};

/// A record may be split: its first slices, the base, are then in memory without the others, the
/// upper slices. Either the upper slices add precision to the base and are there with it, or they
/// are a separate copy, which is complete in itself and there instead of it.
struct ExpertPages {
  uint16_t baseSlices = 0; // 0: it is not split, and has pages for the whole record.
  bool hasCopies = false;
  PageRange base;  // Only of a split record.
  PageRange whole; // With upper slices: of both parts, or of the separate copy.

  PageRange of(uint16_t slices) const {
    return slices == 0 ? PageRange() : slices <= baseSlices ? base : whole;
  }
  /// True if `slices` exceeds the base.
  bool isUpper(uint16_t slices) const { return baseSlices > 0 && slices > baseSlices; }
  /// The pages of the upper slices, or of the others.
  uint32_t ofPart(bool isUpperPart) const {
    if (!isUpperPart)
      return baseSlices > 0 ? base.count() : whole.count();
    return hasCopies ? whole.count() : whole.count() - base.count();
  }
  /// Pages of so many slices that are for upper slices.
  uint32_t upperOf(uint16_t slices) const { return isUpper(slices) ? ofPart(true) : 0; }
  uint32_t most() const { return std::max(base.count(), whole.count()); }
  uint32_t least() const {
    return baseSlices == 0 ? whole.count() : std::min(base.count(), whole.count());
  }
};

/// How a record is split: at the low copy's end if it has copies (ExpertRecord::lowCopySlices; 0:
/// it has none), or else after CacheRules::baseSlices.
inline uint16_t baseSlicesOf(uint64_t slices, uint16_t lowCopySlices, uint8_t baseSlices) {
  if (lowCopySlices > 0)
    return lowCopySlices;
  return baseSlices < slices ? baseSlices : uint16_t(0);
}

/// The base ends at baseEnd bytes, if there is one.
inline ExpertPages expertPagesOf(uint64_t bytes, uint16_t baseSlices, uint64_t baseEnd,
                                 bool hasCopies, uint64_t pageBytes) {
  const auto page = [pageBytes](uint64_t at) { return static_cast<uint32_t>(at / pageBytes); };
  const auto end = [pageBytes](uint64_t at) {
    return static_cast<uint32_t>(divideUp(at, pageBytes));
  };
  ExpertPages pages{baseSlices, hasCopies, {}, {0, end(bytes)}};
  if (baseSlices > 0)
    pages.base = {0, end(baseEnd)};
  if (hasCopies)
    pages.whole.first = page(baseEnd);
  return pages;
}

} // namespace moert
