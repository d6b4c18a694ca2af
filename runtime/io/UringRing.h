// io_uring's ring, with registered buffers if the system allows.
#pragma once

#include "runtime/io/RequestRing.h"

#include <memory>
#include <string>

namespace moert {

struct OpenedRing {
  std::unique_ptr<RequestRing> ring;
  std::string description; // "io_uring, direct"
  RegisteredRegions regions;
};

/// The file must have a direct descriptor and outlive the ring. Fails if the system refuses
/// io_uring, or if this library was built without it.
Result<OpenedRing> openUringRing(const ArtifactFile &file, const ReadQueueOptions &options);

/// Includes the kernel's memory.
uint64_t uringRingMemoryBytes(const ReadQueueOptions &options);

} // namespace moert
