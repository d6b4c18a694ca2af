// The bookkeeping that all read queues share: reads in flight, the requests they were split into,
// and their results. It does no I/O.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/io/ReadQueue.h"

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>
#include <sys/uio.h>
#include <vector>

namespace moert {

/// One request to the system: the part of a read that has not been read yet.
struct ReadRequest {
  static constexpr int kEndOfFile = -1;
  static constexpr int32_t kNoRegion = -1;

  uint64_t fileOffset = 0;
  uint64_t bytes = 0;
  iovec *pieces = nullptr;
  uint32_t pieceCount = 0;
  uint32_t read = 0;          // The slot of its read.
  int32_t region = kNoRegion; // The registered region that contains its only piece.
  uint32_t tries = 0;         // Consecutive tries without progress.
  int error = 0;              // 0, an errno, or kEndOfFile.
  uint64_t foundBytes = 0;    // With kEndOfFile: bytes from fileOffset to the end of the file.
};

/// Consecutive tries of a request that the system has no resources for, one millisecond apart,
/// before that is an error. Memory pressure usually passes within a few of them.
constexpr uint32_t kMostTries = 1000;

/// Waits one millisecond.
void pauseBeforeTry();

/// Applies the result of a system call to a request: bytes read, or -errno. Returns true if the
/// request has ended, successfully or not, and false if the rest must be submitted again.
bool advanceRequest(ReadRequest &request, ssize_t result);

/// Part of a read queue. Used by one thread, except that a request handed to another thread belongs
/// to that thread until it is handed back.
///
/// Invariants: a slot is free (in freeSlots), in flight (openRequests > 0) or finished (in the ring
/// of finished slots). Requests and pieces of slot s are at [s * piecesPerRead, (s + 1) *
/// piecesPerRead).
class ReadTable {
public:
  /// The requests of one read: indices [first, first + count).
  struct Requests {
    uint32_t first = 0;
    uint32_t count = 0;
  };

  ReadTable(const ArtifactFile &file, const ReadQueueOptions &options);
  static uint64_t memoryBytes(const ReadQueueOptions &options);
  static Status checkOptions(const ReadQueueOptions &options);

  /// Memory registered with the kernel; a piece inside such a region may become a request of its
  /// own. Ascending and disjoint.
  void setRegions(std::vector<MemoryPiece> registered) { regions = std::move(registered); }

  Result<Requests> add(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces);
  ReadRequest &request(uint32_t index) { return requests[index]; }
  /// The maximum number of requests at once.
  size_t capacity() const { return requests.size(); }

  /// Whether its read has already failed at a lower offset, so that this request is not needed.
  bool isPointless(const ReadRequest &pending) const {
    const ReadRequest *failed = reads[pending.read].failedRequest;
    return failed && failed->fileOffset < pending.fileOffset;
  }

  /// Ends a request. A read finishes with its last request, so that nothing is written to the
  /// memory of a finished read.
  void finish(uint32_t index);

  size_t take(std::span<ReadCompletion> out);
  bool hasFinished() const { return finishedCount > 0; }
  size_t readsUnderWay() const { return reads.size() - freeSlots.size(); }

private:
  struct Read {
    uint64_t tag = 0;
    uint64_t fileOffset = 0;
    uint64_t bytes = 0;
    uint32_t openRequests = 0;                  // Requests that have not ended.
    const ReadRequest *failedRequest = nullptr; // The one with the lowest offset.
  };

  Status checkRead(uint64_t fileOffset, std::span<const MemoryPiece> pieces) const;
  uint32_t cutPieces(std::span<const MemoryPiece> pieces, iovec *out) const;
  int32_t regionOf(const iovec &piece) const;
  Status statusOf(const Read &read) const;

  const ArtifactFile &file;
  uint64_t maxRequestBytes;
  uint32_t maxPiecesPerRead;
  uint64_t maxReadBytes;
  uint32_t piecesPerRead;
  std::vector<Read> reads;
  std::vector<ReadRequest> requests;
  std::vector<iovec> iovecs;
  std::vector<uint32_t> freeSlots;
  std::vector<uint32_t> finished; // A ring.
  size_t finishedFirst = 0;
  size_t finishedCount = 0;
  std::vector<MemoryPiece> regions;
};

} // namespace moert
