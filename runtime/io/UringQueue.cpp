#include "runtime/io/UringQueue.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/io/CpuCaches.h"
#include "runtime/io/FlushChoice.h"
#include "runtime/io/IndexRing.h"
#include "runtime/io/ReadTable.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <liburing.h>
#include <optional>
#include <vector>

namespace moert {

namespace {

// Threads that the kernel may start for requests that it cannot start without waiting.
constexpr unsigned kKernelWorkers = 4;

/// A request is in `waiting` until the system has room for it, by number and by bytes, then at the
/// system, and back in `waiting` if its read was short.
class UringQueue final : public ReadQueue {
public:
  UringQueue(const ArtifactFile &artifact, const ReadQueueOptions &options)
      : ReadQueue(options), file(artifact), depth(options.depth),
        mostBytesAtSystem(options.maxBytesUnderWay), table(artifact, options),
        waiting(table.capacity()), flushChoice(options.clock, canFlushFromCaches()) {}

  ~UringQueue() override;
  Status start(const ReadQueueOptions &options);

  Status submit(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces) override;
  Result<size_t> poll(std::span<ReadCompletion> out, bool wait) override;
  size_t readsUnderWay() const override { return table.readsUnderWay(); }

private:
  int setUpRing();
  std::string registerRegions(std::span<const MemoryPiece> regions);
  void harvest();
  bool hasNext();
  void flush(ReadRequest &request);
  bool flushAhead();
  void issueWaiting();
  void prepare(io_uring_sqe *sqe, uint32_t index);
  Status enter(unsigned waitFor);
  Status awaitCompletion();

  const ArtifactFile &file;
  uint32_t depth;
  uint64_t mostBytesAtSystem;
  ReadTable table;
  IndexRing waiting;
  std::optional<uint32_t> next; // The first of those that wait, taken out of `waiting`.
  io_uring ring = {};
  bool hasRing = false;
  bool hasRegisteredFile = false;
  uint32_t atSystem = 0;
  uint64_t bytesAtSystem = 0;
  FlushChoice flushChoice;
};

} // namespace

UringQueue::~UringQueue() {
  if (!hasRing)
    return;
  while (hasNext())
    next.reset();
  while (atSystem > 0 && enter(1).isOk()) {
    harvest();
    while (hasNext())
      next.reset();
  }
  io_uring_queue_exit(&ring);
}

int UringQueue::setUpRing() {
  // Completions wait for the engine's next call instead of interrupting its kernels (Linux 5.19).
  // IORING_SETUP_DEFER_TASKRUN would do more, but binds the ring to the thread that made it.
  int error =
      io_uring_queue_init(depth, &ring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
  if (error == -EINVAL)
    error = io_uring_queue_init(depth, &ring, 0);
  return -error;
}

Status UringQueue::start(const ReadQueueOptions &options) {
  if (int error = setUpRing())
    return systemError(error, "io_uring was refused");
  hasRing = true;
  // They cost memory. Where their number cannot be limited (before Linux 5.15) it hardly ever is
  // more.
  unsigned workers[2] = {kKernelWorkers, kKernelWorkers};
  io_uring_register_iowq_max_workers(&ring, workers);
  int descriptor = file.directDescriptor();
  hasRegisteredFile = io_uring_register_files(&ring, &descriptor, 1) == 0;
  setDescription("io_uring, direct" + registerRegions(options.registeredRegions));
  return {};
}

std::string UringQueue::registerRegions(std::span<const MemoryPiece> regions) {
  std::vector<MemoryPiece> chunks;
  std::vector<iovec> iovecs;
  for (const MemoryPiece &region : regions)
    for (uint64_t start = 0; start < region.bytes; start += kRegisteredChunkBytes)
      chunks.push_back(
          {region.data + start, std::min(kRegisteredChunkBytes, region.bytes - start)});
  if (chunks.empty())
    return "";
  std::sort(chunks.begin(), chunks.end(),
            [](const MemoryPiece &a, const MemoryPiece &b) { return a.data < b.data; });
  for (const MemoryPiece &chunk : chunks)
    iovecs.push_back({chunk.data, chunk.bytes});
  int error = io_uring_register_buffers(&ring, iovecs.data(), static_cast<unsigned>(iovecs.size()));
  if (error != 0)
    return strCat(", no registered buffers (", std::strerror(-error), "; see ulimit -l)");
  table.setRegions(std::move(chunks));
  return ", registered buffers";
}

void UringQueue::prepare(io_uring_sqe *sqe, uint32_t index) {
  const ReadRequest &request = table.request(index);
  int descriptor = hasRegisteredFile ? 0 : file.directDescriptor();
  if (request.region != ReadRequest::kNoRegion)
    io_uring_prep_read_fixed(sqe, descriptor, request.pieces->iov_base,
                             static_cast<unsigned>(request.bytes), request.fileOffset,
                             request.region);
  else
    io_uring_prep_readv(sqe, descriptor, request.pieces, request.pieceCount, request.fileOffset);
  if (hasRegisteredFile)
    sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(sqe, index);
}

bool UringQueue::hasNext() {
  uint32_t index;
  if (!next && waiting.pop(index))
    next = index;
  return next.has_value();
}

void UringQueue::flush(ReadRequest &request) {
  for (const iovec &piece : std::span(request.pieces, request.pieceCount))
    flushFromCaches({static_cast<const std::byte *>(piece.iov_base), piece.iov_len});
  request.isFlushed = true;
  countFlushed(request.bytes);
}

/// Of the read that is next, while the disk is at work anyway. False if there is nothing to do.
bool UringQueue::flushAhead() {
  if (!flushChoice.isFlushFaster() || !hasNext())
    return false;
  ReadTable::Requests all = table.requestsOf(table.request(*next));
  for (uint32_t i = *next; i < all.first + all.count; ++i)
    if (!table.request(i).isFlushed) {
      flush(table.request(i));
      return true;
    }
  return false;
}

void UringQueue::issueWaiting() {
  while (atSystem < depth && hasNext()) {
    ReadRequest &request = table.request(*next);
    if (table.isPointless(request)) {
      table.finish(*next);
    } else {
      if (atSystem > 0 && bytesAtSystem + request.bytes > mostBytesAtSystem)
        return;
      if (atSystem == 0)
        flushChoice.begin(request.isFlushed);
      if (flushChoice.isFlushing() && !request.isFlushed)
        flush(request);
      flushChoice.add(request.isFlushed, request.bytes);
      // The ring has room for depth requests, and no more are ever in it.
      prepare(io_uring_get_sqe(&ring), *next);
      ++atSystem;
      bytesAtSystem += request.bytes;
    }
    next.reset();
  }
}

/// Hands prepared requests to the system and, with waitFor, waits for a completion.
Status UringQueue::enter(unsigned waitFor) {
  for (;;) {
    int result = io_uring_submit_and_wait(&ring, waitFor);
    if (result >= 0)
      return {};
    // The system is short of something for the moment; completions give it back.
    bool isBusy = result == -EAGAIN || result == -EBUSY;
    if (isBusy && io_uring_sq_ready(&ring) < atSystem)
      return {};
    if (result != -EINTR && !isBusy)
      return systemError(-result, strCat(file.path(), ": io_uring"));
  }
}

Status UringQueue::awaitCompletion() {
  bool sleeps = io_uring_cq_ready(&ring) == 0;
  MOERT_RETURN_IF_ERROR(enter(1));
  if (sleeps && io_uring_cq_ready(&ring) == atSystem)
    flushChoice.end();
  return {};
}

void UringQueue::harvest() {
  io_uring_cqe *completions[32];
  for (;;) {
    unsigned count = io_uring_peek_batch_cqe(&ring, completions, 32);
    for (unsigned i = 0; i < count; ++i) {
      uint32_t index = static_cast<uint32_t>(io_uring_cqe_get_data64(completions[i]));
      --atSystem;
      bytesAtSystem -= table.request(index).bytes;
      if (advanceRequest(table.request(index), completions[i]->res))
        table.finish(index);
      else
        waiting.push(index);
    }
    io_uring_cq_advance(&ring, count);
    if (count == 0)
      return;
  }
}

Status UringQueue::submit(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces) {
  MOERT_ASSIGN_OR_RETURN(ReadTable::Requests made, table.add(tag, fileOffset, pieces));
  for (uint32_t i = 0; i < made.count; ++i)
    waiting.push(made.first + i);
  issueWaiting();
  return enter(0);
}

Result<size_t> UringQueue::poll(std::span<ReadCompletion> out, bool wait) {
  for (;;) {
    harvest();
    issueWaiting();
    bool isDone = table.hasFinished() || !wait || table.readsUnderWay() == 0;
    if (io_uring_sq_ready(&ring) > 0)
      MOERT_RETURN_IF_ERROR(enter(0));
    if (isDone)
      return table.take(out);
    if (!flushAhead())
      MOERT_RETURN_IF_ERROR(awaitCompletion());
  }
}

Result<std::unique_ptr<ReadQueue>> createUringQueue(const ArtifactFile &file,
                                                    const ReadQueueOptions &options) {
  MOERT_RETURN_IF_ERROR(ReadTable::checkOptions(options));
  auto queue = std::make_unique<UringQueue>(file, options);
  MOERT_RETURN_IF_ERROR(queue->start(options));
  return std::unique_ptr<ReadQueue>(std::move(queue));
}

uint64_t uringQueueMemoryBytes(const ReadQueueOptions &options) {
  uint64_t table = ReadTable::memoryBytes(options);
  uint64_t requests = table / sizeof(ReadRequest); // More than there are.
  uint64_t entries = std::bit_ceil(uint64_t(options.depth));
  // Submission and completion entries with their rings; the kernel rounds each up to a power of
  // two.
  uint64_t rings = 2 * (entries * (sizeof(io_uring_sqe) + 2 * sizeof(io_uring_cqe) + 4) + 4096);
  // The kernel's request, a copy of its pieces, and the lists of their pages while it is at the
  // disk.
  uint64_t pagesPerRequest = options.maxRequestBytes / 4096;
  uint64_t perRequest = 1024 + pagesPerRequest * (2 * sizeof(iovec) + 32);
  constexpr uint64_t kContextBytes =
      128 * 1024;                              // The ring itself, its tables, the list of buffers.
  constexpr uint64_t kWorkerBytes = 64 * 1024; // Stack and task of a kernel thread.
  return table + IndexRing::memoryBytes(requests) + sizeof(UringQueue) + rings +
         entries * perRequest + kContextBytes + kKernelWorkers * kWorkerBytes +
         // The last chunk of registered regions, which costs as much as a whole one, and what
         // registering needs for a moment.
         kRegisteredChunkCostBytes + kRegisteredChunkBytes / 4096 * 16;
}

} // namespace moert
