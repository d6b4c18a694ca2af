// Memory allocated from the system in one piece before the work starts: the expert cache's pool,
// resident weights, the KV cache. Not for small or short-lived data.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moert {

enum class Populate {
  kYes, // All pages exist when create() returns: no later page fault can exceed the budget.
  kNo,  // Pages are allocated on first use.
};

/// Owns an anonymous mapping, page-aligned and filled with zeros. Movable; the memory then keeps
/// its address. Any thread may use the bytes.
class HostRegion {
public:
  HostRegion() = default;
  HostRegion(HostRegion &&other) noexcept;
  HostRegion &operator=(HostRegion &&other) noexcept;
  ~HostRegion();

  /// 0 bytes give an empty region.
  static Result<HostRegion> create(uint64_t bytes, Populate populate = Populate::kYes);

  /// Gives the end back to the system, or adds zeros there; the content before it stays. A region
  /// that grows may move to another address, and exists completely when this returns. An error
  /// leaves size and content as they were, and the address, too, unless another thread's mapping
  /// has taken it meanwhile: use data() after an error. Shrinking does not fail. No part of the
  /// region may be pinned by the kernel.
  Status resize(uint64_t bytes);

  /// Gives the pages from `from` on back to the system and keeps their addresses, so that nothing
  /// has to be mapped to have them again: pages that are used later are zeros.
  void release(uint64_t from);

  std::byte *data() const { return start; }
  uint64_t bytes() const { return sizeBytes; }
  std::span<std::byte> span() const { return {start, sizeBytes}; }

private:
  void giveBack(uint64_t from);
  Status extend(uint64_t to);
  void moveBack(std::byte *before);

  std::byte *start = nullptr;
  uint64_t sizeBytes = 0;
};

} // namespace moert
