// The bookkeeping that every read queue shares: reads under way, the requests they were cut into,
// and what became of them. It does no I/O.
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

/// One request to the system: the part of a read that is still to come.
struct ReadRequest {
  static constexpr int kEndOfFile = -1;
  static constexpr int32_t kNoRegion = -1;

  uint64_t fileOffset = 0;
  uint64_t bytes = 0;
  iovec *pieces = nullptr;
  uint32_t pieceCount = 0;
  uint32_t read = 0;          // The slot of the read it belongs to.
  int32_t region = kNoRegion; // The registered region that holds its only piece.
  uint32_t tries = 0;         // In a row that brought nothing.
  int error = 0;              // 0, an errno, or kEndOfFile.
  uint64_t foundBytes = 0;    // With kEndOfFile: bytes after fileOffset that the file still has.
};

/// The system is asked so often in a row for what it has no room for, a millisecond apart, before
/// that is an error. Memory pressure passes within some of them.
constexpr uint32_t kMostTries = 1000;

/// Waits that millisecond.
void pauseBeforeTry();

/// Takes in what a system call said about a request: bytes read, or -errno. True if the request has
/// ended, well or not; false if the rest of it has to be asked for again.
bool advanceRequest(ReadRequest &request, ssize_t result);

/// Part of a read queue. One thread, except that a request which was handed to another thread
/// belongs to that thread until it is handed back.
///
/// Invariants: a slot is free (in freeSlots), under way (openRequests > 0) or finished (in the ring
/// of finished slots). Requests and pieces of slot s stand at [s * piecesPerRead, (s + 1) *
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

  /// Memory that was registered with the kernel; a piece inside such a region may become a request
  /// of its own. Ascending and disjoint.
  void setRegions(std::vector<MemoryPiece> registered) { regions = std::move(registered); }

  Result<Requests> add(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces);
  ReadRequest &request(uint32_t index) { return requests[index]; }
  /// How many requests there can be at once.
  size_t capacity() const { return requests.size(); }

  /// Whether its read has failed before the place that this request is for, so that it is
  /// pointless.
  bool isPointless(const ReadRequest &pending) const {
    const ReadRequest *failed = reads[pending.read].failedRequest;
    return failed && failed->fileOffset < pending.fileOffset;
  }

  /// A request has ended. Its read finishes with its last request, so that nothing is written to
  /// the memory of a finished read.
  void finish(uint32_t index);

  size_t take(std::span<ReadCompletion> out);
  bool hasFinished() const { return finishedCount > 0; }
  size_t readsUnderWay() const { return reads.size() - freeSlots.size(); }

private:
  struct Read {
    uint64_t tag = 0;
    uint64_t fileOffset = 0;
    uint64_t bytes = 0;
    uint32_t openRequests = 0;                  // That have not ended.
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
