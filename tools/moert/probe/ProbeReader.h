// Reads records at random places of a file, several at a time, as the expert cache does: through a
// ReadQueue, to pieces of memory the size of a pool's pages.
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
/// As much as makes reads into it as slow as they get: on a virtual machine (Intel Emerald Rapids,
/// 260 MiB of third-level cache for all of its guests, 2026-11-24) records of 2 MB came
/// at 2.74, 2.56, 2.49, 2.26, 2.16, 2.16 and 2.19 GB/s into 8, 16, 32, 64, 128, 256 and 512 MiB
/// round and round.
constexpr uint64_t kProbeMemoryBytes = uint64_t(128) << 20;
static_assert(kProbeMemoryBytes >= kMostRecords * kMostRecordBytes);

/// Where the next record is. Through the page cache nothing may be read twice, or it would not come
/// from the disk: then each place is given once, in random order.
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

/// Pieces of a memory, one behind the other and round again: reads into memory that was read into a
/// moment ago may be faster than those of a pool are.
class MemoryRing {
public:
  explicit MemoryRing(std::span<std::byte> memoryBytes)
      : memory(memoryBytes), keptEnd(memoryBytes.size()) {}

  /// Of at most the bytes that it is kept to.
  std::byte *next(uint64_t bytes);

  /// Goes round in this part of the memory from now on: from its beginning, or, if it is the part
  /// so far and more, from the end of that, where nothing was read into of late.
  void keepTo(uint64_t first, uint64_t bytes) {
    const bool isWider = first <= keptFirst && first + bytes > keptEnd;
    used = isWider ? keptEnd : first;
    keptFirst = first;
    keptEnd = first + bytes;
  }

private:
  std::span<std::byte> memory;
  uint64_t keptFirst = 0, keptEnd;
  uint64_t used = 0; // From the memory's beginning.
};

/// A queue and the reads under way, kMostRecords at most. Borrows the file and the memory, of
/// kProbeMemoryBytes.
class ProbeReader {
public:
  static Result<ProbeReader> create(const ArtifactFile &file, HostRegion &memory,
                                    IoBackend backend);

  const std::string &describe() const { return queue->describe(); }
  uint32_t underWay() const { return reads; }

  /// Reads into this part of the memory from now on, round and round: all of it to begin with.
  void keepTo(uint64_t first, uint64_t bytes) { places.keepTo(first, bytes); }

  Status begin(uint64_t offset, uint64_t bytes);
  /// How many reads have ended; at least one with `wait`, if any is under way.
  Result<size_t> takeEnded(bool wait);

private:
  ProbeReader(std::unique_ptr<ReadQueue> readQueue, std::span<std::byte> memory)
      : queue(std::move(readQueue)), places(memory) {}

  std::unique_ptr<ReadQueue> queue;
  MemoryRing places;
  uint32_t reads = 0; // Under way.
};

} // namespace moert::probe
