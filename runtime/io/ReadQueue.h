// Reads of records from the artifact file, several at once and independent of each other. The
// expert cache decides what is read, when, and into which memory.
//
// A read is one contiguous range of the file, scattered to pieces of memory. It is split into
// requests by its pieces and the maximum request size; the requests are in flight together as far
// as the depth allows, and the rest follow as requests complete.
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
  kAuto,     // The first of the following that works on this system.
  kUring,    // io_uring, past the page cache.
  kThreads,  // Threads that block in preadv, past the page cache.
  kBuffered, // The same threads, through the page cache.
};

/// The value of --io: auto, uring, threads, buffered.
std::string_view ioBackendName(IoBackend backend);
std::optional<IoBackend> parseIoBackend(std::string_view name);

/// Memory that a read fills; address and size are multiples of 4 KiB.
struct MemoryPiece {
  std::byte *data = nullptr;
  uint64_t bytes = 0;
};

struct ReadQueueOptions {
  IoBackend backend = IoBackend::kAuto;
  /// Requests in flight at once. 32 of 512 KiB keep an NVMe disk busy; the thread backends use
  /// fewer, since each thread costs a stack (kMaxWorkers in ThreadsQueue.h).
  uint32_t depth = 32;
  /// A multiple of 4 KiB. Large requests cost less CPU per byte, small ones spread better.
  uint64_t maxRequestBytes = 512 * 1024;
  /// Bounds the bytes in flight with io_uring, so reads complete in order and compute overlaps the
  /// rest; a single larger request still goes alone. Without a limit, a virtual disk that signals
  /// when its queue is empty delivered 4 reads of 2 MB together after 4.2 ms; with 2 MiB, one every
  /// 0.8 ms. For larger reads the limit should be larger: with a whole record of 4 MB in flight,
  /// decoding was 2 to 5% faster than with 2 MiB of it.
  uint64_t maxBytesUnderWay = 2 * 1024 * 1024;
  /// Limits of submitted reads; their storage is allocated once, at creation.
  uint32_t maxReads = 64;
  uint32_t maxPiecesPerRead = 64;
  uint64_t maxReadBytes = 16 * 1024 * 1024;
  /// Memory that most reads go to, such as the cache's pool: pinned once instead of for every
  /// request, if the system allows. Must outlive the queue.
  std::span<const MemoryPiece> registeredRegions;
  Clock clock = monotonicNs;
};

struct ReadCompletion {
  uint64_t tag = 0;
  /// The result of the read; an error names the file, the offset, and the bytes expected and found.
  Status status;
};

/// A queue of reads from one file. Owned by its creator (the engine) and not thread-safe: one
/// thread calls it at a time. The file and all memory given to submit() must outlive the queue. The
/// destructor waits for the reads in flight, so that nothing is written to their memory afterwards.
///
/// submit() and poll() allocate nothing and take no lock unless a read fails.
class ReadQueue {
public:
  virtual ~ReadQueue() = default;
  ReadQueue(const ReadQueue &) = delete;
  ReadQueue &operator=(const ReadQueue &) = delete;

  /// Starts a read; its completion carries the tag. The pieces are copied; their total length is
  /// the length of the range. Fails if a limit of the options is exceeded or something is not a
  /// multiple of 4 KiB. After an error nothing was started, unless the queue is broken.
  virtual Status submit(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces) = 0;

  /// Takes finished reads, as many as fit into `out`, and submits queued requests. With `wait` it
  /// returns at least one if any read is in flight. An error means that the queue is broken; a
  /// failed read is a completion.
  virtual Result<size_t> poll(std::span<ReadCompletion> out, bool wait) = 0;

  /// Reads submitted and not yet taken by poll(); at most maxReads.
  virtual size_t readsUnderWay() const = 0;

  /// Replaces ReadQueueOptions::registeredRegions while no read is under way. Memory that is
  /// registered must be withdrawn this way before it is given back or moved. If the system refuses,
  /// reads go on without registration, and describe() says so.
  virtual void registerRegions(std::span<const MemoryPiece> regions) = 0;

  /// The error that broke the queue, which every later call returns. Reads that were submitted
  /// before, and one that submit() failed to start, may still arrive until the queue is destroyed:
  /// their memory must not be reused until then.
  const Status &broken() const { return breakdown; }

  uint32_t maxReads() const { return limits.maxReads; }
  uint32_t maxPiecesPerRead() const { return limits.maxPiecesPerRead; }
  uint64_t maxReadBytes() const { return limits.maxReadBytes; }

  /// For people: "io_uring, direct, registered buffers", and which better ways were refused.
  const std::string &describe() const { return description; }

  /// Adds the refusals of backends that were tried before this one.
  void describeRefusal(const std::string &refused) { description += "; " + refused; }

protected:
  explicit ReadQueue(const ReadQueueOptions &options)
      : limits{options.maxReads, options.maxPiecesPerRead, options.maxReadBytes} {}
  void setDescription(std::string text) { description = std::move(text); }
  /// Records the error and returns it.
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

/// A queue that completed a probing read. If a backend is requested by name and the system refuses
/// it, the error gives the reason and an --io value that works.
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
