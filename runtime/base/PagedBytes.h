// Bytes in pages: a record in memory, or, as a single page, any contiguous bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moert {

/// Borrows the pages and their table. Byte i of the view is byte (offset + i) of the sequence of
/// pages.
struct PagedBytes {
  const std::byte *const *pages = nullptr;
  uint32_t pageShift = 0; // log2 of the page size.
  uint64_t offset = 0;

  constexpr const std::byte *at(uint64_t index) const {
    uint64_t position = offset + index;
    return pages[position >> pageShift] + (position & ((uint64_t(1) << pageShift) - 1));
  }

  /// Bytes from at(index) to the end of its page.
  uint64_t contiguousFrom(uint64_t index) const {
    return (uint64_t(1) << pageShift) - ((offset + index) & ((uint64_t(1) << pageShift) - 1));
  }

  /// The same view from byte `index` on.
  constexpr PagedBytes from(uint64_t index) const { return {pages, pageShift, offset + index}; }

  /// Contiguous bytes as one page; `page` must outlive the result.
  static PagedBytes contiguous(const std::byte *const *page) { return {page, 63, 0}; }
};

} // namespace moert
