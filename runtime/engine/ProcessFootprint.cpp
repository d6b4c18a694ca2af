#include "runtime/engine/ProcessFootprint.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/WorkerThread.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <limits>
#include <sched.h>
#include <set>
#include <sstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace moert {

namespace {

constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB;

// Small allocations of a run, C++ start-up, the environment, the touched part of the main stack and
// the pages of initialized data that were written. 0.7 MiB were seen on a run of the bundled model;
// the rest is room for command lines and messages.
constexpr uint64_t kHeapBytes = 1536 * kKiB;

// What no program can count: directory entries and inodes of opened files, pages of the
// executable's directory, the loader's cache, readahead of small text files.
constexpr uint64_t kReserveBytes = 1 * kMiB;

// A memory cgroup charges each processor in batches of 64 pages, which count as used.
constexpr uint64_t kChargeBatchBytes = 256 * kKiB;

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Sizes of the files behind this process's mappings, whole: a file's pages count when they are
// read, and the kernel reads ahead beyond what is mapped.
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

uint64_t parseLimit(const std::string &text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? value : UINT64_MAX; // "max": no limit
}

// Calls visit(directory, isVersion2) for this process's control group and all groups above it, in
// version 2 and in version 1's hierarchy of `controller`: a limit may stand at any of them.
template <typename Visit> void forEachControlGroup(const std::string &controller, Visit visit) {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool isVersion2 = controllers.empty();
    bool isListed = false; // Version 1 mounts several together: "cpu,cpuacct".
    std::istringstream names(controllers);
    for (std::string name; std::getline(names, name, ',');)
      isListed = isListed || name == controller;
    if (!isVersion2 && !isListed)
      continue;
    std::string root = "/sys/fs/cgroup";
    if (!isVersion2)
      root += "/" + controller;
    for (std::string directory = root + line.substr(second + 1); directory.size() >= root.size();) {
      visit(directory, isVersion2);
      directory.resize(directory.rfind('/'));
    }
  }
}

uint64_t cgroupLimitBytes() {
  uint64_t limit = UINT64_MAX;
  forEachControlGroup("memory", [&](const std::string &directory, bool isVersion2) {
    const char *file = isVersion2 ? "/memory.max" : "/memory.limit_in_bytes";
    limit = std::min(limit, parseLimit(firstLine(directory + file)));
  });
  return limit;
}

// Cores' worth of time that the control groups allow, rounded up.
uint64_t cgroupCores() {
  uint64_t cores = UINT64_MAX;
  forEachControlGroup("cpu", [&](const std::string &directory, bool isVersion2) {
    uint64_t quota = UINT64_MAX, period = UINT64_MAX;
    if (isVersion2) {
      std::istringstream fields(firstLine(directory + "/cpu.max")); // "200000 100000", "max 100000"
      std::string quotaText, periodText;
      fields >> quotaText >> periodText;
      quota = parseLimit(quotaText);
      period = parseLimit(periodText);
    } else {
      quota = parseLimit(firstLine(directory + "/cpu.cfs_quota_us")); // "-1": no limit
      period = parseLimit(firstLine(directory + "/cpu.cfs_period_us"));
    }
    if (quota != UINT64_MAX && period != UINT64_MAX && period > 0)
      cores = std::min(cores, divideUp(quota, period));
  });
  return cores;
}

uint64_t freeMemoryBytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    std::istringstream fields(line);
    std::string name;
    uint64_t kibibytes = 0;
    if (fields >> name >> kibibytes && name == "MemAvailable:")
      return kibibytes * kKiB;
  }
  return UINT64_MAX;
}

} // namespace

ProcessFootprint processFootprint(const ReadQueueOptions &io) {
  ProcessFootprint footprint;
  footprint.imageBytes = mappedFileBytes();
  footprint.heapBytes = kHeapBytes;
  footprint.bytesPerThread = WorkerThread::kStackBytes + WorkerThread::kKernelBytes;
  footprint.ioBytes = readQueueMemoryBytes(io);
  footprint.ioBytesPerPoolMiB = readQueueBytesPerRegisteredMiB(io.backend);
  footprint.reserveBytes =
      kReserveBytes + kChargeBatchBytes * static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_ONLN));
  return footprint;
}

uint32_t availableCores() {
  cpu_set_t set;
  uint32_t cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    cores = static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
  return static_cast<uint32_t>(std::clamp<uint64_t>(cgroupCores(), 1, cores));
}

uint64_t availableMemoryBytes() {
  // A sixteenth of the free memory stays free: a system at its last page is a slow one.
  uint64_t freeBytes = freeMemoryBytes();
  return std::min(cgroupLimitBytes(), freeBytes - freeBytes / 16);
}

} // namespace moert
