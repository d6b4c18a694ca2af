// Reads through io_uring, past the page cache, with registered buffers where the system allows.
#pragma once

#include "runtime/io/ReadQueue.h"
#include "runtime/io/UringRing.h"

namespace moert {

/// The file has a direct descriptor. An error if the system refuses io_uring, or if this library
/// was built without it.
Result<std::unique_ptr<ReadQueue>> createUringQueue(const ArtifactFile &file,
                                                    const ReadQueueOptions &options);

/// The same queue over any ring with options.depth entries.
Result<std::unique_ptr<ReadQueue>>
createRingQueue(const ArtifactFile &file, const ReadQueueOptions &options, OpenedRing ring);

uint64_t uringQueueMemoryBytes(const ReadQueueOptions &options);

/// A call may be interrupted so often in a row, once for each signal.
constexpr uint32_t kMostInterrupts = 1000 * 1000;

/// Pinned regions are registered in chunks of this size. The kernel keeps 16 bytes per page of a
/// chunk and a header, rounded up to a power of two: 63 MiB stay just below 256 KiB.
constexpr uint64_t kRegisteredChunkBytes = 63 * 1024 * 1024;
constexpr uint64_t kRegisteredChunkCostBytes = 256 * 1024;

} // namespace moert
