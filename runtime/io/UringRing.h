// io_uring's ring, with registered buffers where the system allows.
#pragma once

#include "runtime/io/RequestRing.h"

#include <memory>
#include <string>
#include <vector>

namespace moert {

struct OpenedRing {
  std::unique_ptr<RequestRing> ring;
  std::string description;          // "io_uring, direct, registered buffers"
  std::vector<MemoryPiece> regions; // Registered ones, ascending.
};

/// The file has a direct descriptor and outlives the ring. An error if the system refuses io_uring,
/// or if this library was built without it.
Result<OpenedRing> openUringRing(const ArtifactFile &file, const ReadQueueOptions &options);

/// The kernel's memory included.
uint64_t uringRingMemoryBytes(const ReadQueueOptions &options);

} // namespace moert
