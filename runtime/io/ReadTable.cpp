#include "runtime/io/ReadTable.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <ctime>

namespace moert {

static constexpr uint64_t kAlignment = ArtifactFile::kAlignment;
// The kernel's limit for one vectored request (UIO_MAXIOV).
static constexpr uint32_t kMaxPiecesPerRequest = 1024;
// Some interfaces hold the length of a request in 32 bits; no sensible setting comes near this.
static constexpr uint64_t kMaxRequestBytes = 256 * 1024 * 1024;
// A registered piece smaller than this joins its neighbours in one vectored request. Measured on a
// virtual NVMe disk (AMD EPYC, Linux 6.18), 4 MiB records on scattered pages of 64 KiB: 1890 MiB/s
// with a registered request per page, 2330 with vectored ones; from 256 KiB on both are equal.
static constexpr uint64_t kMinRegisteredRequestBytes = 256 * 1024;

static bool isAligned(uint64_t value) {
  return value % kAlignment == 0;
}

void pauseBeforeTry() {
  const timespec millisecond = {0, 1'000'000};
  nanosleep(&millisecond, nullptr);
}

bool advanceRequest(ReadRequest &request, ssize_t result) {
  if ((result == -EINTR || result == -EAGAIN) && ++request.tries < kMostTries)
    return false;
  if (result < 0) {
    request.error = static_cast<int>(-result);
    return true;
  }
  uint64_t got = static_cast<uint64_t>(result);
  if (got >= request.bytes)
    return true;
  // Direct reads resume only at an aligned offset; the bytes after it are read again.
  uint64_t kept = got / kAlignment * kAlignment;
  if (kept == 0) {
    request.error = ReadRequest::kEndOfFile;
    request.foundBytes = got;
    return true;
  }
  request.tries = 0;
  request.fileOffset += kept;
  request.bytes -= kept;
  while (kept >= request.pieces->iov_len) {
    kept -= request.pieces->iov_len;
    ++request.pieces;
    --request.pieceCount;
  }
  request.pieces->iov_base = static_cast<std::byte *>(request.pieces->iov_base) + kept;
  request.pieces->iov_len -= kept;
  return false;
}

// Each run of adjacent pieces is cut at maxRequestBytes, which adds at most one cut per run to the
// whole requests.
static uint64_t cutPiecesPerRead(const ReadQueueOptions &options) {
  return options.maxPiecesPerRead + options.maxReadBytes / options.maxRequestBytes;
}

Status ReadTable::checkOptions(const ReadQueueOptions &options) {
  if (options.depth == 0 || options.maxReads == 0 || options.maxPiecesPerRead == 0)
    return failed("a read queue needs a depth, reads and pieces of at least 1");
  if (options.maxRequestBytes == 0 || !isAligned(options.maxRequestBytes) ||
      options.maxRequestBytes > kMaxRequestBytes)
    return failed("a read queue's request size of ", options.maxRequestBytes,
                  " bytes is not a multiple of ", kAlignment, " up to ", kMaxRequestBytes);
  std::optional<uint64_t> total = checkedMultiply(cutPiecesPerRead(options), options.maxReads);
  if (!total || *total > (uint64_t(1) << 31))
    return failed("a read queue of ", options.maxReads, " reads with ", options.maxPiecesPerRead,
                  " pieces each has more requests than can be counted");
  return {};
}

ReadTable::ReadTable(const ArtifactFile &readFile, const ReadQueueOptions &options)
    : file(readFile), maxRequestBytes(options.maxRequestBytes),
      maxPiecesPerRead(options.maxPiecesPerRead), maxReadBytes(options.maxReadBytes),
      piecesPerRead(static_cast<uint32_t>(cutPiecesPerRead(options))), reads(options.maxReads),
      requests(uint64_t(piecesPerRead) * options.maxReads), iovecs(requests.size()),
      finished(options.maxReads) {
  for (uint32_t slot = options.maxReads; slot-- > 0;)
    freeSlots.push_back(slot);
}

uint64_t ReadTable::memoryBytes(const ReadQueueOptions &options) {
  uint64_t perPiece = sizeof(ReadRequest) + sizeof(iovec);
  // freeSlots may hold twice what it needs, because the vector grows.
  uint64_t perRead = sizeof(Read) + 3 * sizeof(uint32_t);
  return options.maxReads * (cutPiecesPerRead(options) * perPiece + perRead);
}

Status ReadTable::checkRead(uint64_t fileOffset, std::span<const MemoryPiece> pieces) const {
  uint64_t bytes = 0;
  bool aligned = isAligned(fileOffset);
  for (const MemoryPiece &piece : pieces) {
    std::optional<uint64_t> sum = checkedAdd(bytes, piece.bytes);
    if (!sum)
      return failed(file.path(), ": a read is longer than can be counted");
    bytes = *sum;
    aligned = aligned && isAligned(piece.bytes) && piece.bytes > 0 &&
              isAligned(reinterpret_cast<uintptr_t>(piece.data));
  }
  if (!checkedAdd(fileOffset, bytes) || !aligned)
    return failed(file.path(), ": a read of ", bytes, " bytes at offset ", fileOffset,
                  " or its memory is not aligned at ", kAlignment, " bytes");
  if (pieces.empty() || pieces.size() > maxPiecesPerRead || bytes > maxReadBytes)
    return failed(file.path(), ": a read of ", bytes, " bytes in ", pieces.size(),
                  " pieces, expected at most ", maxReadBytes, " bytes in 1 to ", maxPiecesPerRead);
  if (freeSlots.empty())
    return failed(file.path(), ": more than ", reads.size(), " reads at once");
  return {};
}

uint32_t ReadTable::cutPieces(std::span<const MemoryPiece> pieces, iovec *out) const {
  uint32_t count = 0;
  for (size_t i = 0; i < pieces.size();) {
    std::byte *data = pieces[i].data;
    uint64_t runBytes = 0;
    for (; i < pieces.size() && pieces[i].data == data + runBytes; ++i)
      runBytes += pieces[i].bytes;
    while (runBytes > 0) {
      uint64_t bytes = std::min(runBytes, maxRequestBytes);
      out[count++] = {data, bytes};
      data += bytes;
      runBytes -= bytes;
    }
  }
  return count;
}

int32_t ReadTable::regionOf(const iovec &piece) const {
  std::byte *data = static_cast<std::byte *>(piece.iov_base);
  auto after =
      std::upper_bound(regions.begin(), regions.end(), data,
                       [](std::byte *d, const MemoryPiece &region) { return d < region.data; });
  if (after == regions.begin())
    return ReadRequest::kNoRegion;
  const MemoryPiece &region = *(after - 1);
  if (!rangeFits(static_cast<uint64_t>(data - region.data), piece.iov_len, region.bytes))
    return ReadRequest::kNoRegion;
  return static_cast<int32_t>(after - 1 - regions.begin());
}

Result<ReadTable::Requests> ReadTable::add(uint64_t tag, uint64_t fileOffset,
                                           std::span<const MemoryPiece> pieces) {
  MOERT_RETURN_IF_ERROR(checkRead(fileOffset, pieces));
  uint32_t slot = freeSlots.back();
  freeSlots.pop_back();
  Requests made{slot * piecesPerRead, 0};
  iovec *cut = &iovecs[made.first];
  uint32_t cutCount = cutPieces(pieces, cut);
  uint64_t offset = fileOffset;
  uint64_t aloneBytes = std::min(kMinRegisteredRequestBytes, maxRequestBytes);
  for (uint32_t i = 0; i < cutCount;) {
    int32_t region = regionOf(cut[i]);
    bool isAlone =
        region != ReadRequest::kNoRegion && (cutCount == 1 || cut[i].iov_len >= aloneBytes);
    ReadRequest &request = requests[made.first + made.count++];
    request = {.fileOffset = offset,
               .bytes = cut[i].iov_len,
               .pieces = cut + i,
               .pieceCount = 1,
               .read = slot,
               .region = isAlone ? region : ReadRequest::kNoRegion};
    for (++i; i < cutCount && !isAlone; ++i) {
      bool fits = request.pieceCount < kMaxPiecesPerRequest &&
                  request.bytes + cut[i].iov_len <= maxRequestBytes;
      bool isBetterAlone =
          cut[i].iov_len >= aloneBytes && regionOf(cut[i]) != ReadRequest::kNoRegion;
      if (!fits || isBetterAlone)
        break;
      ++request.pieceCount;
      request.bytes += cut[i].iov_len;
    }
    offset += request.bytes;
  }
  reads[slot] = {.tag = tag,
                 .fileOffset = fileOffset,
                 .bytes = offset - fileOffset,
                 .openRequests = made.count};
  return made;
}

void ReadTable::finish(uint32_t index) {
  const ReadRequest &request = requests[index];
  Read &read = reads[request.read];
  assert(read.openRequests > 0);
  if (request.error != 0 &&
      (!read.failedRequest || request.fileOffset < read.failedRequest->fileOffset))
    read.failedRequest = &request;
  if (--read.openRequests == 0)
    finished[(finishedFirst + finishedCount++) % finished.size()] = request.read;
}

Status ReadTable::statusOf(const Read &read) const {
  if (!read.failedRequest)
    return {};
  const ReadRequest &request = *read.failedRequest;
  uint64_t found = request.fileOffset + request.foundBytes - read.fileOffset;
  std::string message = strCat(file.path(), ": read of ", read.bytes, " bytes at offset ",
                               read.fileOffset, " found ", found, " bytes");
  if (request.error == ReadRequest::kEndOfFile)
    return invalidInput(message, ", then the end of the file");
  return systemError(request.error, message);
}

size_t ReadTable::take(std::span<ReadCompletion> out) {
  size_t count = 0;
  for (; count < out.size() && finishedCount > 0; ++count, --finishedCount) {
    uint32_t slot = finished[finishedFirst];
    finishedFirst = (finishedFirst + 1) % finished.size();
    out[count].tag = reads[slot].tag;
    out[count].status = statusOf(reads[slot]);
    freeSlots.push_back(slot);
  }
  return count;
}

} // namespace moert
