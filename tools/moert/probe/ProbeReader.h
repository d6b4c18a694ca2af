// Reads records at random places of a file, several at a time, as the expert cache does: through a
// ReadQueue, to pieces of memory the size of a pool's pages.
#pragma once

#include "runtime/base/HostMemory.h"
#include "runtime/io/ReadQueue.h"

#include <deque>
#include <memory>
#include <optional>
#include <random>
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

/// A queue and the reads under way, kMostRecords at most. Each goes where none has been for
/// longest, as those of an expert cache do: memory that a processor's cache holds takes reads
/// faster. Borrows the file and the memory, of kProbeMemoryBytes.
class ProbeReader {
public:
  static Result<ProbeReader> create(const ArtifactFile &file, HostRegion &memory,
                                    IoBackend backend);

  const std::string &describe() const { return queue->describe(); }
  uint32_t underWay() const { return kMostRecords - static_cast<uint32_t>(free.size()); }

  Status begin(uint64_t offset, uint64_t bytes);
  /// How many reads have ended; at least one with `wait`, if any is under way.
  Result<size_t> takeEnded(bool wait);

private:
  ProbeReader(std::unique_ptr<ReadQueue> readQueue, std::byte *start);

  std::unique_ptr<ReadQueue> queue;
  std::byte *memory;
  std::deque<uint32_t> free; // Places in memory, that of the oldest read first.
};

} // namespace moert::probe
