// Replaces UringRing.cpp if liburing was not found at build time.
#include "runtime/io/UringRing.h"

namespace moert {

Result<OpenedRing> openUringRing(const ArtifactFile &, const ReadQueueOptions &) {
  return failed("io_uring: this program was built without it (liburing was not found)");
}

uint64_t uringRingMemoryBytes(const ReadQueueOptions &) {
  return 0;
}

} // namespace moert
