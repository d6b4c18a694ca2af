// Reads by threads that block in preadv: for systems that refuse io_uring, and through the page
// cache for file systems that refuse direct I/O.
#pragma once

#include "runtime/io/ReadQueue.h"

namespace moert {

/// More threads add little (a disk that serves 8 requests of 512 KiB at once is near its best rate)
/// and cost a stack each.
constexpr uint32_t kMaxWorkers = 8;

/// The backend is kThreads or kBuffered. For kThreads the file must have a direct descriptor.
Result<std::unique_ptr<ReadQueue>> createThreadsQueue(const ArtifactFile &file,
                                                      const ReadQueueOptions &options);

uint64_t threadsQueueMemoryBytes(const ReadQueueOptions &options);

} // namespace moert
