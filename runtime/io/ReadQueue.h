// Reads of records from the artifact file, several at once, none waiting for another. What is read,
// when and where to is the expert cache's business.
//
// A read is one contiguous range of the file, scattered to pieces of memory. It becomes as many
// requests to the system as its pieces and the request size ask for, all under way at once as far
// as the depth allows; the rest follows as requests complete.
#pragma once

#include "runtime/base/Clock.h"
#include "runtime/base/Status.h"
#include "runtime/io/ArtifactFile.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace moert {

enum class IoBackend {
  kAuto,     // The first of the following that works here.
  kUring,    // io_uring, past the page cache.
  kThreads,  // Threads that wait in preadv, past the page cache.
  kBuffered, // The same threads, through the page cache.
};

/// As --io spells it: auto, uring, threads, buffered.
std::string_view ioBackendName(IoBackend backend);
std::optional<IoBackend> parseIoBackend(std::string_view name);

/// Memory that a read fills; address and size are multiples of 4 KiB.
struct MemoryPiece {
  std::byte *data = nullptr;
  uint64_t bytes = 0;
};

struct ReadQueueOptions {
  IoBackend backend = IoBackend::kAuto;
  /// Requests under way at once. 32 of half a MiB keep an NVMe disk busy; threads are fewer, since
  /// each costs a stack (kMaxWorkers in ThreadsQueue.h).
  uint32_t depth = 32;
  /// A multiple of 4 KiB. Large requests cost less work per byte, small ones spread better.
  uint64_t maxRequestBytes = 512 * 1024;
  /// Of all requests under way with io_uring, unless one alone is more. More than a disk needs for
  /// its best rate makes reads end together, late, instead of one after the other: what came first
  /// is not computed while the rest is read. A virtual disk that signals when its queue is empty
  /// delivered 4 reads of 2 MB all at once after 4.2 ms without a limit, and each 0.8 ms after the
  /// one before with 2 MiB. Where a read is larger, this should be, too: with all of a record of 4
  /// MB at the disk decoding was 2 to 5% faster than with 2 MiB of it.
  uint64_t maxBytesUnderWay = 2 * 1024 * 1024;
  /// Limits of what may be submitted; storage for it is allocated once, up front.
  uint32_t maxReads = 64;
  uint32_t maxPiecesPerRead = 64;
  uint64_t maxReadBytes = 16 * 1024 * 1024;
  /// Memory that most reads go to, such as the cache's pool: where the system allows, it is pinned
  /// once and not at every request. It has to outlive the queue.
  std::span<const MemoryPiece> registeredRegions;
  Clock clock = monotonicNs;
};

struct ReadCompletion {
  uint64_t tag = 0;
  /// What happened to the read: an error names the file, the offset, the bytes wanted and found.
  Status status;
};

/// A queue of reads from one file. Owned and used by whoever created it (the engine), one thread at
/// a time; nothing here is safe to call from two at once. The file and all memory given to submit()
/// outlive the queue. The destructor waits for the reads under way, so that nothing is written to
/// their memory afterwards.
///
/// submit() and poll() allocate nothing and take no lock unless a read fails.
class ReadQueue {
public:
  virtual ~ReadQueue() = default;
  ReadQueue(const ReadQueue &) = delete;
  ReadQueue &operator=(const ReadQueue &) = delete;

  /// Starts a read; the tag comes back with its completion. The pieces are copied, together they
  /// are as long as the range. An error if the limits of the options are exceeded or something is
  /// not a multiple of 4 KiB. After an error nothing was started, unless the queue is broken.
  virtual Status submit(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces) = 0;

  /// Takes finished reads, as many as there are and fit, and keeps the system busy with what is
  /// queued. With wait it returns at least one if any read is under way. An error means that the
  /// queue is broken; a failed read is a completion.
  virtual Result<size_t> poll(std::span<ReadCompletion> out, bool wait) = 0;

  /// Reads that were submitted and not yet taken by poll(); at most maxReads.
  virtual size_t readsUnderWay() const = 0;

  /// The error after which the queue cannot go on, which every later call returns. Reads that were
  /// submitted before, and one that submit() failed to start, may still arrive until the queue is
  /// destroyed: their memory cannot serve anything else until then.
  const Status &broken() const { return breakdown; }

  uint32_t maxReads() const { return limits.maxReads; }
  uint32_t maxPiecesPerRead() const { return limits.maxPiecesPerRead; }
  uint64_t maxReadBytes() const { return limits.maxReadBytes; }

  /// For people: "io_uring, direct, registered buffers", and what was refused on the way there.
  const std::string &describe() const { return description; }

  /// Adds what was refused before this queue was chosen.
  void describeRefusal(const std::string &refused) { description += "; " + refused; }

protected:
  explicit ReadQueue(const ReadQueueOptions &options)
      : limits{options.maxReads, options.maxPiecesPerRead, options.maxReadBytes} {}
  void setDescription(std::string text) { description = std::move(text); }
  /// Gives the error back.
  const Status &breakDown(Status reason) { return breakdown = std::move(reason); }

private:
  struct Limits {
    uint32_t maxReads;
    uint32_t maxPiecesPerRead;
    uint64_t maxReadBytes;
  };
  Limits limits;
  Status breakdown;
  std::string description;
};

/// A queue that was tried with a real read. A backend that is asked for by name and refused by the
/// system is an error that says what was refused and which --io works.
Result<std::unique_ptr<ReadQueue>> createReadQueue(const ArtifactFile &file,
                                                   const ReadQueueOptions &options);

using ReadQueueMaker = std::function<Result<std::unique_ptr<ReadQueue>>(
    const ArtifactFile &file, const ReadQueueOptions &options)>;

/// An upper bound of what such a queue costs the process without registered regions, memory of the
/// kernel included (rings, requests, stacks); kAuto: of the dearest backend. Known before anything
/// is opened, so that a budget can be refused first.
uint64_t readQueueMemoryBytes(const ReadQueueOptions &options);

/// The same for each MiB of registered regions: the kernel keeps a list of their pages.
uint64_t readQueueBytesPerRegisteredMiB(IoBackend backend);

} // namespace moert
