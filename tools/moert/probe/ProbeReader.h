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
constexpr uint64_t kProbeMemoryBytes = kMostRecords * kMostRecordBytes;

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

/// Pieces of a memory, one behind the other and round again: reads into memory that a processor's
/// cache holds are faster than those of a pool are.
class MemoryRing {
public:
  explicit MemoryRing(std::span<std::byte> memoryBytes) : memory(memoryBytes) {}

  /// Of at most the memory's bytes.
  std::byte *next(uint64_t bytes);

private:
  std::span<std::byte> memory;
  uint64_t used = 0;
};

/// A queue and the reads under way, kMostRecords at most. Borrows the file and the memory, of
/// kProbeMemoryBytes.
class ProbeReader {
public:
  static Result<ProbeReader> create(const ArtifactFile &file, HostRegion &memory,
                                    IoBackend backend);

  const std::string &describe() const { return queue->describe(); }
  uint32_t underWay() const { return reads; }

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
