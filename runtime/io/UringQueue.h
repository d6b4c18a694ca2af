// Reads through io_uring, past the page cache, with registered buffers if the system allows.
#pragma once

#include "runtime/io/ReadQueue.h"
#include "runtime/io/UringRing.h"

namespace moert {

/// The file must have a direct descriptor. Fails if the system refuses io_uring, or if this library
/// was built without it.
Result<std::unique_ptr<ReadQueue>> createUringQueue(const ArtifactFile &file,
                                                    const ReadQueueOptions &options);

/// The same queue over any ring with options.depth entries.
Result<std::unique_ptr<ReadQueue>>
createRingQueue(const ArtifactFile &file, const ReadQueueOptions &options, OpenedRing ring);

uint64_t uringQueueMemoryBytes(const ReadQueueOptions &options);

/// How often in a row a call may be interrupted, once for each signal.
constexpr uint32_t kMostInterrupts = 1000 * 1000;

/// Pinned regions are registered in chunks of this size. The kernel keeps 16 bytes per page of a
/// chunk and a header, rounded up to a power of two: 63 MiB stay just below 256 KiB.
constexpr uint64_t kRegisteredChunkBytes = 63 * 1024 * 1024;
constexpr uint64_t kRegisteredChunkCostBytes = 256 * 1024;

} // namespace moert
