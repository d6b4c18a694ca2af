// Reads by threads that wait in preadv: for systems that refuse io_uring, and through the page
// cache for file systems that refuse direct I/O.
#pragma once

#include "runtime/io/ReadQueue.h"

namespace moert {

/// What a depth beyond this would add is small (a disk that serves 8 requests of half a MiB at once
/// is near its best) and costs a stack each.
constexpr uint32_t kMaxWorkers = 8;

/// The backend is kThreads or kBuffered. The file has a direct descriptor for the former.
Result<std::unique_ptr<ReadQueue>> createThreadsQueue(const ArtifactFile &file,
                                                      const ReadQueueOptions &options);

uint64_t threadsQueueMemoryBytes(const ReadQueueOptions &options);

} // namespace moert
