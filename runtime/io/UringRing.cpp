#include "runtime/io/UringRing.h"

#include "runtime/io/CpuCaches.h"
#include "runtime/io/UringQueue.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <liburing.h>

namespace moert {

namespace {

// Threads that the kernel may start for requests that would block.
constexpr unsigned kKernelWorkers = 4;

class UringRing final : public RequestRing {
public:
  explicit UringRing(int directDescriptor) : descriptor(directDescriptor) {}
  ~UringRing() override {
    if (isOpen)
      io_uring_queue_exit(&ring);
  }

  Status open(uint32_t depth);
  void prepare(uint32_t index, const ReadRequest &request) override;
  int submit(bool waits) override { return io_uring_submit_and_wait(&ring, waits ? 1 : 0); }
  int wait() override {
    io_uring_cqe *completion = nullptr;
    return io_uring_wait_cqe(&ring, &completion);
  }
  void pause() override { pauseBeforeTry(); }
  uint32_t prepared() const override { return io_uring_sq_ready(&ring); }
  uint32_t completed() const override { return io_uring_cq_ready(&ring); }
  size_t take(std::span<RingCompletion> out) override;
  RegisteredRegions registerRegions(std::span<const MemoryPiece> regions) override;

private:
  int descriptor;
  io_uring ring = {};
  bool isOpen = false;
  bool hasRegisteredFile = false;
  bool hasRegisteredRegions = false;
};

} // namespace

Status UringRing::open(uint32_t depth) {
  // Completions wait for the engine's next call instead of interrupting its kernels (Linux 5.19).
  // IORING_SETUP_DEFER_TASKRUN would defer more, but binds the ring to the thread that created it.
  int error =
      io_uring_queue_init(depth, &ring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
  if (error == -EINVAL)
    error = io_uring_queue_init(depth, &ring, 0);
  if (error != 0)
    return systemError(-error, "io_uring was refused");
  isOpen = true;
  // Kernel threads cost memory. Where their number cannot be limited (before Linux 5.15), it is
  // hardly ever higher.
  unsigned workers[2] = {kKernelWorkers, kKernelWorkers};
  io_uring_register_iowq_max_workers(&ring, workers);
  hasRegisteredFile = io_uring_register_files(&ring, &descriptor, 1) == 0;
  return {};
}

/// In chunks, all of them again: the kernel replaces single ones too, but not at once in every
/// version. Pinning takes 0.8 ms a GiB of huge pages and 30 ms of small ones (AMD EPYC, Linux
/// 6.18).
RegisteredRegions UringRing::registerRegions(std::span<const MemoryPiece> regions) {
  if (hasRegisteredRegions)
    io_uring_unregister_buffers(&ring);
  hasRegisteredRegions = false;
  RegisteredRegions registered;
  for (const MemoryPiece &region : regions)
    for (uint64_t start = 0; start < region.bytes; start += kRegisteredChunkBytes)
      registered.chunks.push_back(
          {region.data + start, std::min(kRegisteredChunkBytes, region.bytes - start)});
  if (registered.chunks.empty())
    return registered;
  std::sort(registered.chunks.begin(), registered.chunks.end(),
            [](const MemoryPiece &a, const MemoryPiece &b) { return a.data < b.data; });
  std::vector<iovec> iovecs;
  for (const MemoryPiece &chunk : registered.chunks)
    iovecs.push_back({chunk.data, chunk.bytes});
  const int error =
      -io_uring_register_buffers(&ring, iovecs.data(), static_cast<unsigned>(iovecs.size()));
  hasRegisteredRegions = error == 0;
  if (error == 0)
    registered.note = ", registered buffers";
  else
    registered = {{},
                  strCat(", no registered buffers (", std::strerror(error), "; see ulimit -l)")};
  return registered;
}

void UringRing::prepare(uint32_t index, const ReadRequest &request) {
  for (const iovec &piece : std::span(request.pieces, request.pieceCount))
    flushFromCaches({static_cast<const std::byte *>(piece.iov_base), piece.iov_len});
  // An entry is free: at most as many requests are prepared as the ring has entries.
  io_uring_sqe *sqe = io_uring_get_sqe(&ring);
  const int file = hasRegisteredFile ? 0 : descriptor;
  if (request.region != ReadRequest::kNoRegion)
    io_uring_prep_read_fixed(sqe, file, request.pieces->iov_base,
                             static_cast<unsigned>(request.bytes), request.fileOffset,
                             request.region);
  else
    io_uring_prep_readv(sqe, file, request.pieces, request.pieceCount, request.fileOffset);
  if (hasRegisteredFile)
    sqe->flags |= IOSQE_FIXED_FILE;
  io_uring_sqe_set_data64(sqe, index);
}

size_t UringRing::take(std::span<RingCompletion> out) {
  std::array<io_uring_cqe *, 32> completions;
  const auto most = static_cast<unsigned>(std::min(out.size(), completions.size()));
  const unsigned count = io_uring_peek_batch_cqe(&ring, completions.data(), most);
  for (unsigned i = 0; i < count; ++i)
    out[i] = {static_cast<uint32_t>(io_uring_cqe_get_data64(completions[i])), completions[i]->res};
  io_uring_cq_advance(&ring, count);
  return count;
}

Result<OpenedRing> openUringRing(const ArtifactFile &file, const ReadQueueOptions &options) {
  auto ring = std::make_unique<UringRing>(file.directDescriptor());
  MOERT_RETURN_IF_ERROR(ring->open(options.depth));
  OpenedRing opened{nullptr, "io_uring, direct", ring->registerRegions(options.registeredRegions)};
  opened.ring = std::move(ring);
  return opened;
}

uint64_t uringRingMemoryBytes(const ReadQueueOptions &options) {
  uint64_t entries = std::bit_ceil(uint64_t(options.depth));
  // Submission and completion entries with their rings; the kernel rounds each number up to a power
  // of two.
  uint64_t rings = 2 * (entries * (sizeof(io_uring_sqe) + 2 * sizeof(io_uring_cqe) + 4) + 4096);
  // The kernel's request, a copy of its pieces, and the lists of their pages while it is in flight.
  uint64_t pagesPerRequest = options.maxRequestBytes / 4096;
  uint64_t perRequest = 1024 + pagesPerRequest * (2 * sizeof(iovec) + 32);
  constexpr uint64_t kContextBytes =
      128 * 1024;                              // The ring itself, its tables, the list of buffers.
  constexpr uint64_t kWorkerBytes = 64 * 1024; // Stack and task of a kernel thread.
  return sizeof(UringRing) + rings + entries * perRequest + kContextBytes +
         kKernelWorkers * kWorkerBytes +
         // The last chunk of registered regions, which costs as much as a full one, and temporary
         // memory while registering.
         kRegisteredChunkCostBytes + kRegisteredChunkBytes / 4096 * 16;
}

} // namespace moert
