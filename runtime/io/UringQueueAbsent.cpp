// Stands in for UringQueue.cpp where liburing was not there at build time.
#include "runtime/io/UringQueue.h"

namespace moert {

Result<std::unique_ptr<ReadQueue>> createUringQueue(const ArtifactFile &,
                                                    const ReadQueueOptions &) {
  return failed("io_uring: this program was built without it (liburing was not found)");
}

uint64_t uringQueueMemoryBytes(const ReadQueueOptions &) {
  return 0;
}

} // namespace moert
