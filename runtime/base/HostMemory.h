// Memory that is taken from the system in one piece, before the work starts: the expert cache's
// pool, resident weights, the KV cache. Not for small or short-lived things.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace moert {

enum class Populate {
  kYes, // Every page is there when create() returns: no later page fault can exceed the budget.
  kNo,  // Pages come with their first use.
};

/// Owns an anonymous mapping, aligned to the system's page and filled with zeros. Movable; the
/// memory stays where it is. Any thread may use the bytes.
class HostRegion {
public:
  HostRegion() = default;
  HostRegion(HostRegion &&other) noexcept;
  HostRegion &operator=(HostRegion &&other) noexcept;
  ~HostRegion();

  /// 0 bytes give an empty region.
  static Result<HostRegion> create(uint64_t bytes, Populate populate = Populate::kYes);

  /// What a region costs the process: its pages and the page tables that map them.
  static uint64_t memoryBytes(uint64_t bytes);

  std::byte *data() const { return start; }
  uint64_t bytes() const { return sizeBytes; }
  std::span<std::byte> span() const { return {start, sizeBytes}; }

  /// Keeps the region from being swapped out. Systems limit this (RLIMIT_MEMLOCK): the error says
  /// so, and the region works all the same.
  Status lock();

private:
  std::byte *start = nullptr;
  uint64_t sizeBytes = 0;
};

} // namespace moert
