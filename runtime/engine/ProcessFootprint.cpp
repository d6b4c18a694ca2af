#include "runtime/engine/ProcessFootprint.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/WorkerThread.h"

#include <cstdint>
#include <fstream>
#include <set>
#include <string>
#include <sys/stat.h>

namespace moert {

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

// Small allocations of a run, C++ start-up, the environment, the touched part of the main stack and
// the written pages of initialized data. A run of the bundled model measured 0.7 MiB; the rest is
// for command lines and messages.
constexpr uint64_t kHeapBytes = 1536 * kKiB;

// Memory that no program can measure: directory entries and inodes of opened files, pages of the
// executable's directory, the loader's cache, readahead of small text files.
constexpr uint64_t kReserveBytes = 1 * kMiB;

// A memory cgroup charges in batches of 64 pages, which count as used: one batch for each processor
// that a thread has charged from, at most as many as there are threads. A thread that moves on
// leaves its batch behind, but the kernel collects such batches before it refuses memory.
constexpr uint64_t kChargeBatchBytes = 256 * kKiB;
// Threads that read for the compute threads and handle signals.
constexpr uint64_t kOtherThreads = 2;

// Total sizes of the files mapped into this process: a file's pages count when they are read, and
// the kernel reads ahead beyond the mapped part.
uint64_t mappedFileBytes() {
  std::ifstream maps("/proc/self/maps");
  std::set<std::string> paths;
  for (std::string line; std::getline(maps, line);)
    if (size_t slash = line.find('/'); slash != std::string::npos)
      paths.insert(line.substr(slash));
  uint64_t bytes = 0;
  for (const std::string &path : paths) {
    struct stat status;
    if (stat(path.c_str(), &status) == 0)
      bytes += roundUp(static_cast<uint64_t>(status.st_size), 4096);
  }
  return bytes;
}

} // namespace

ProcessFootprint processFootprint(const ReadQueueOptions &io) {
  ProcessFootprint footprint;
  footprint.imageBytes = mappedFileBytes();
  footprint.heapBytes = kHeapBytes;
  footprint.bytesPerThread = WorkerThread::kStackBytes + WorkerThread::kKernelBytes;
  footprint.ioBytes = readQueueMemoryBytes(io);
  footprint.ioBytesPerPoolMiB = readQueueBytesPerRegisteredMiB(io.backend);
  footprint.reserveBytes = kReserveBytes + kChargeBatchBytes * kOtherThreads;
  footprint.reserveBytesPerThread = kChargeBatchBytes;
  return footprint;
}

} // namespace moert
