// Reads records at random places of a file, several at a time, as the expert cache does: through a
// ReadQueue, to pieces of memory the size of a pool's pages.
#pragma once

#include "runtime/base/HostMemory.h"
#include "runtime/io/ReadQueue.h"

#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace moert::probe {

constexpr uint64_t kMostRecordBytes = 4 << 20;
constexpr uint32_t kMostRecords = 16;

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

/// A queue and the reads under way: `records` at most, of at most `recordBytes`. Borrows the file
/// and the memory, which holds as many.
class ProbeReader {
public:
  static Result<ProbeReader> create(const ArtifactFile &file, HostRegion &memory, IoBackend backend,
                                    uint64_t recordBytes = kMostRecordBytes,
                                    uint32_t records = kMostRecords);

  const std::string &describe() const { return queue->describe(); }
  uint32_t underWay() const { return records - static_cast<uint32_t>(free.size()); }

  Status begin(uint64_t offset, uint64_t bytes);
  /// How many reads have ended; at least one with `wait`, if any is under way.
  Result<size_t> takeEnded(bool wait);

private:
  ProbeReader(std::unique_ptr<ReadQueue> readQueue, std::byte *start, uint64_t stride,
              uint32_t count);

  std::unique_ptr<ReadQueue> queue;
  std::byte *memory;
  uint64_t recordBytes;
  uint32_t records;
  std::vector<uint32_t> free; // Places in memory.
};

} // namespace moert::probe
