// Reads records at random places of a file, several at a time, as the expert cache does: through a
// ReadQueue, into pieces of memory as large as a pool's pages.
#pragma once

#include "runtime/base/HostMemory.h"
#include "runtime/io/ReadQueue.h"

#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace moert::probe {

constexpr uint64_t kMostRecordBytes = 4 << 20;
constexpr uint32_t kMostRecords = 16;
/// Large enough that reads into it are as slow as they get. On a virtual machine (Intel Emerald
/// Rapids, 260 MiB of third-level cache for all of its guests, 2026-11-24), records of 2 MB came at
/// 2.74, 2.56, 2.49, 2.26, 2.16, 2.16 and 2.19 GB/s into a ring of 8, 16, 32, 64, 128, 256 and 512
/// MiB.
constexpr uint64_t kProbeMemoryBytes = uint64_t(128) << 20;
static_assert(kProbeMemoryBytes >= kMostRecords * kMostRecordBytes);

/// Yields the places of the records to read. Through the page cache each place is yielded once, in
/// random order, since a second read would not come from the disk.
class Places {
public:
  Places(uint64_t fileBytes, uint64_t recordBytes, bool isOnce);

  std::optional<uint64_t> next();

private:
  std::mt19937_64 random{1};
  uint64_t record;
  std::vector<uint64_t> slots;
  size_t used = 0;
  bool isRepeated;
};

/// Cuts consecutive pieces from a memory, and starts again at its end: reads into memory that was
/// written a moment ago may be faster than reads into a pool.
class MemoryRing {
public:
  explicit MemoryRing(std::span<std::byte> memoryBytes)
      : memory(memoryBytes), keptEnd(memoryBytes.size()) {}

  /// `bytes`: at most the size of the part that keepTo() set.
  std::byte *next(uint64_t bytes);

  /// Limits the ring to this part of the memory. It continues at the part's beginning, or, if the
  /// part extends the present one, at the end of that, where the memory was not written recently.
  void keepTo(uint64_t first, uint64_t bytes) {
    const bool isWider = first <= keptFirst && first + bytes > keptEnd;
    used = isWider ? keptEnd : first;
    keptFirst = first;
    keptEnd = first + bytes;
  }

private:
  std::span<std::byte> memory;
  uint64_t keptFirst = 0, keptEnd;
  uint64_t used = 0; // Offset from the memory's beginning.
};

/// A queue with at most kMostRecords reads in flight. Borrows the file and the memory, of
/// kProbeMemoryBytes.
class ProbeReader {
public:
  static Result<ProbeReader> create(const ArtifactFile &file, HostRegion &memory,
                                    IoBackend backend);

  const std::string &describe() const { return queue->describe(); }
  uint32_t underWay() const { return reads; }

  /// Limits reads to this part of the memory, used as a ring; initially all of it.
  void keepTo(uint64_t first, uint64_t bytes) { places.keepTo(first, bytes); }

  Status begin(uint64_t offset, uint64_t bytes);
  /// Returns how many reads have ended; with `wait`, at least one if any is in flight.
  Result<size_t> takeEnded(bool wait);

private:
  ProbeReader(std::unique_ptr<ReadQueue> readQueue, std::span<std::byte> memory)
      : queue(std::move(readQueue)), places(memory) {}

  std::unique_ptr<ReadQueue> queue;
  MemoryRing places;
  uint32_t reads = 0; // In flight.
};

} // namespace moert::probe
