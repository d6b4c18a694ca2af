#include "runtime/io/ReadQueue.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/HostMemory.h"
#include "runtime/io/ThreadsQueue.h"
#include "runtime/io/UringQueue.h"

#include <algorithm>
#include <array>

namespace moert {

namespace {

struct BackendName {
  IoBackend backend;
  std::string_view name;
};

constexpr std::array<BackendName, 4> kBackendNames = {{{IoBackend::kAuto, "auto"},
                                                       {IoBackend::kUring, "uring"},
                                                       {IoBackend::kThreads, "threads"},
                                                       {IoBackend::kBuffered, "buffered"}}};

/// In the order in which they are tried.
constexpr std::array<IoBackend, 3> kBackends = {IoBackend::kUring, IoBackend::kThreads,
                                                IoBackend::kBuffered};

} // namespace

std::string_view ioBackendName(IoBackend backend) {
  return kBackendNames[static_cast<size_t>(backend)].name;
}

std::optional<IoBackend> parseIoBackend(std::string_view name) {
  for (const BackendName &entry : kBackendNames)
    if (entry.name == name)
      return entry.backend;
  return std::nullopt;
}

/// Some systems, sandboxes above all, accept a setup that then does not work, so only a completed
/// read proves a queue.
static Status probe(ReadQueue &queue, HostRegion &memory) {
  MemoryPiece piece{memory.data(), ArtifactFile::kAlignment};
  MOERT_RETURN_IF_ERROR(queue.submit(0, 0, {&piece, 1}));
  ReadCompletion completion;
  MOERT_ASSIGN_OR_RETURN(size_t count, queue.poll({&completion, 1}, true));
  if (count != 1)
    return failed("a first read did not complete");
  return completion.status;
}

static Result<std::unique_ptr<ReadQueue>> create(IoBackend backend, const ArtifactFile &file,
                                                 ReadQueueOptions options) {
  options.backend = backend;
  if (backend != IoBackend::kBuffered && file.directDescriptor() < 0)
    return failed("direct I/O was refused (", file.directRefusal(), ")");
  // Declared before the queue, to outlive it: a read that failed to complete may still arrive.
  MOERT_ASSIGN_OR_RETURN(HostRegion probed, HostRegion::create(ArtifactFile::kAlignment));
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ReadQueue> queue, backend == IoBackend::kUring
                                                               ? createUringQueue(file, options)
                                                               : createThreadsQueue(file, options));
  MOERT_RETURN_IF_ERROR(probe(*queue, probed));
  return queue;
}

static Status refuseForced(const ArtifactFile &file, const ReadQueueOptions &options,
                           const Status &refusal) {
  for (IoBackend other : kBackends)
    if (other != options.backend && create(other, file, options).isOk())
      return invalidInput(file.path(), ": --io ", ioBackendName(options.backend),
                          " does not work here: ", refusal.message(), "; --io ",
                          ioBackendName(other), " does");
  return refusal.withContext(file.path());
}

Result<std::unique_ptr<ReadQueue>> createReadQueue(const ArtifactFile &file,
                                                   const ReadQueueOptions &options) {
  if (file.bytes() < ArtifactFile::kAlignment)
    return invalidInput(file.path(), ": has ", file.bytes(), " bytes, expected at least ",
                        ArtifactFile::kAlignment);
  std::string refusals;
  Status last;
  for (IoBackend backend : kBackends) {
    if (options.backend != IoBackend::kAuto && options.backend != backend)
      continue;
    Result<std::unique_ptr<ReadQueue>> queue = create(backend, file, options);
    if (queue.isOk()) {
      if (!refusals.empty())
        queue.value()->describeRefusal(refusals);
      return queue;
    }
    last = queue.status();
    refusals +=
        strCat(refusals.empty() ? "" : "; ", "no ", ioBackendName(backend), ": ", last.message());
  }
  if (options.backend != IoBackend::kAuto)
    return refuseForced(file, options, last);
  return last.withContext(file.path());
}

uint64_t readQueueMemoryBytes(const ReadQueueOptions &options) {
  switch (options.backend) {
  case IoBackend::kUring:
    return uringQueueMemoryBytes(options);
  case IoBackend::kThreads:
  case IoBackend::kBuffered:
    return threadsQueueMemoryBytes(options);
  case IoBackend::kAuto:
    break;
  }
  return std::max(uringQueueMemoryBytes(options), threadsQueueMemoryBytes(options));
}

uint64_t readQueueBytesPerRegisteredMiB(IoBackend backend) {
  bool mayRegister = backend == IoBackend::kUring || backend == IoBackend::kAuto;
  return mayRegister ? divideUp(kRegisteredChunkCostBytes, kRegisteredChunkBytes / (1024 * 1024))
                     : 0;
}

} // namespace moert
