#include "runtime/base/SystemLimits.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <malloc.h>
#include <sched.h>
#include <sstream>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace moert {

namespace {

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// UINT64_MAX (no limit) for "max", "-1" and missing files.
uint64_t parseLimit(std::string_view text) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end != text.data() ? value : UINT64_MAX;
}

uint32_t coresOf(uint64_t quota, uint64_t period) {
  if (quota == UINT64_MAX || period == UINT64_MAX || period == 0)
    return UINT32_MAX;
  uint64_t cores = quota / period + (quota % period != 0);
  return static_cast<uint32_t>(std::clamp<uint64_t>(cores, 1, UINT32_MAX));
}

/// Calls visit(directory) for a group's directory and those of all groups above it.
template <typename Visit>
void visitUpwards(const std::string &root, const std::string &group, Visit visit) {
  for (std::string folder = root + group;;) {
    visit(folder);
    size_t slash = folder.rfind('/');
    if (folder.size() <= root.size() || slash == std::string::npos)
      return;
    folder.resize(std::max(slash, root.size()));
  }
}

bool contains(const std::string &controllers, const std::string &name) {
  return ("," + controllers + ",").find("," + name + ",") != std::string::npos;
}

/// Sums up a group's lines of "NAME BYTES" that have one of these names; 0 without the file.
uint64_t sumOf(const std::string &path, std::initializer_list<std::string_view> names) {
  std::ifstream file(path);
  uint64_t sum = 0, bytes = 0;
  for (std::string name; file >> name >> bytes;)
    if (std::find(names.begin(), names.end(), name) != names.end())
      sum += bytes;
  return sum;
}

/// Applies one group's limit and usage. Usage includes file pages, which the system reclaims.
void takeMemory(GroupLimits &limits, uint64_t limit, uint64_t usage, uint64_t fileBytes) {
  limits.limitBytes = std::min(limits.limitBytes, limit);
  if (limit == UINT64_MAX || usage == UINT64_MAX) // No limit; or a version without the count.
    usage = fileBytes = 0;
  const uint64_t held = usage - std::min(usage, fileBytes);
  limits.roomBytes = std::min(limits.roomBytes, limit - std::min(limit, held));
}

void takeV2(GroupLimits &limits, const std::string &root, const std::string &group) {
  visitUpwards(root, group, [&](const std::string &folder) {
    takeMemory(limits, parseLimit(firstLine(folder + "/memory.max")),
               parseLimit(firstLine(folder + "/memory.current")),
               sumOf(folder + "/memory.stat", {"inactive_file", "active_file"}));
    std::string cpu = firstLine(folder + "/cpu.max"); // "QUOTA PERIOD"
    size_t space = std::min(cpu.find(' '), cpu.size());
    uint64_t quota = parseLimit(std::string_view(cpu).substr(0, space));
    std::string_view period = std::string_view(cpu).substr(std::min(space + 1, cpu.size()));
    limits.cores = std::min(limits.cores, coresOf(quota, parseLimit(period)));
  });
}

void takeV1(GroupLimits &limits, const std::string &root, const std::string &controllers,
            const std::string &group) {
  if (contains(controllers, "memory"))
    visitUpwards(root + "/memory", group, [&](const std::string &folder) {
      takeMemory(limits, parseLimit(firstLine(folder + "/memory.limit_in_bytes")),
                 parseLimit(firstLine(folder + "/memory.usage_in_bytes")),
                 sumOf(folder + "/memory.stat", {"total_inactive_file", "total_active_file"}));
    });
  if (contains(controllers, "cpu"))
    visitUpwards(root + "/cpu", group, [&](const std::string &folder) {
      limits.cores =
          std::min(limits.cores, coresOf(parseLimit(firstLine(folder + "/cpu.cfs_quota_us")),
                                         parseLimit(firstLine(folder + "/cpu.cfs_period_us"))));
    });
}

/// A value of a file with lines of "NAME: KIBIBYTES kB"; without the line, UINT64_MAX.
uint64_t bytesNamed(std::string_view wanted, const std::string &path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name;
    uint64_t kibibytes = 0;
    if (fields >> name >> kibibytes && name == wanted)
      return kibibytes * 1024;
  }
  return UINT64_MAX;
}

MemoryBound smaller(uint64_t ofMachine, uint64_t ofContainer) {
  return {std::min(ofMachine, ofContainer), ofContainer < ofMachine};
}

} // namespace

/// Calls visit(controllers, group) for each line "NUMBER:CONTROLLERS:GROUP"; no controllers: v2.
template <typename Visit> static void visitGroups(const std::string &systemRoot, Visit visit) {
  std::ifstream groups(systemRoot + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first != std::string::npos && second != std::string::npos)
      visit(line.substr(first + 1, second - first - 1), line.substr(second + 1));
  }
}

GroupLimits groupLimits(const std::string &systemRoot) {
  GroupLimits limits;
  const std::string root = systemRoot + "/sys/fs/cgroup";
  visitGroups(systemRoot, [&](const std::string &controllers, const std::string &group) {
    if (controllers.empty())
      takeV2(limits, root, group);
    else
      takeV1(limits, root, controllers, group);
  });
  return limits;
}

SystemMemory systemMemory(const std::string &systemRoot) {
  const std::string info = systemRoot + "/proc/meminfo";
  const GroupLimits groups = groupLimits(systemRoot);
  return {smaller(bytesNamed("MemTotal:", info), groups.limitBytes),
          smaller(bytesNamed("MemAvailable:", info), groups.roomBytes)};
}

/// "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS"
static std::optional<uint64_t> stalledNsOf(const std::string &path) {
  const std::string line = firstLine(path);
  const size_t total = line.find(" total=");
  if (!line.starts_with("some ") || total == std::string::npos)
    return std::nullopt;
  const uint64_t microseconds = parseLimit(std::string_view(line).substr(total + 7));
  return microseconds > UINT64_MAX / 1000 ? std::nullopt : std::optional(microseconds * 1000);
}

namespace {

/// The names of one version's files and of its statistics' fields.
struct MemoryFiles {
  const char *limit, *soft, *anonymous, *shared;
};

/// The kernel's counts lag behind by up to 64 pages of each processor.
uint64_t precisionBytes() {
  return 2 * 64 * 4096 * static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_ONLN));
}

void takeBound(MemoryBound &bound, const std::string &folder, const MemoryFiles &files,
               uint64_t ownBytes) {
  const uint64_t limit = std::min(parseLimit(firstLine(folder + files.limit)),
                                  parseLimit(firstLine(folder + files.soft)));
  if (limit >= bound.bytes)
    return;
  const uint64_t all = sumOf(folder + "/memory.stat", {files.anonymous, files.shared});
  const uint64_t mine = ownBytes + precisionBytes();
  const uint64_t others = all - std::min(all, mine);
  bound = {std::min(bound.bytes, limit - std::min(limit, others)), true};
}

} // namespace

MemorySignals memorySignals(const std::string &systemRoot) {
  static constexpr MemoryFiles kV1 = {"/memory.limit_in_bytes", "/memory.soft_limit_in_bytes",
                                      "total_rss", "total_shmem"};
  static constexpr MemoryFiles kV2 = {"/memory.max", "/memory.high", "anon", "shmem"};
  const uint64_t read = bytesNamed("RssAnon:", systemRoot + "/proc/self/status");
  const uint64_t own = read == UINT64_MAX ? 0 : read;
  const uint64_t left = bytesNamed("MemAvailable:", systemRoot + "/proc/meminfo");
  MemorySignals signals;
  if (left != UINT64_MAX)
    signals.bound.bytes = left - left / 16 + own; // A system at its last page is a slow one.
  const std::string root = systemRoot + "/sys/fs/cgroup";
  visitGroups(systemRoot, [&](const std::string &controllers, const std::string &group) {
    const bool isV2 = controllers.empty();
    if (!isV2 && !contains(controllers, "memory"))
      return;
    visitUpwards(isV2 ? root : root + "/memory", group, [&](const std::string &folder) {
      takeBound(signals.bound, folder, isV2 ? kV2 : kV1, own);
      if (isV2 && !signals.stalledNs)
        signals.stalledNs = stalledNsOf(folder + "/memory.pressure");
    });
  });
  if (!signals.stalledNs)
    signals.stalledNs = stalledNsOf(systemRoot + "/proc/pressure/memory");
  return signals;
}

/// This process's affinity. The system refuses a set that is smaller than its own.
static uint32_t schedulableCores() {
  constexpr size_t kMostCores = 1 << 20;
  for (size_t most = CPU_SETSIZE; most <= kMostCores; most *= 2) {
    std::vector<cpu_set_t> set(most / CPU_SETSIZE);
    const size_t bytes = set.size() * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) == 0)
      return static_cast<uint32_t>(std::max(1, CPU_COUNT_S(bytes, set.data())));
    if (errno != EINVAL)
      break;
  }
  return 1;
}

uint32_t availableCores() {
  return std::min(schedulableCores(), groupLimits().cores);
}

uint32_t mostThreads() {
  constexpr uint32_t kLeast = 64, kPerCore = 4;
  return std::max(kLeast, kPerCore * availableCores());
}

uint64_t availableMemoryBytes() {
  // A system at its last page is a slow one.
  const uint64_t freeBytes = bytesNamed("MemAvailable:", "/proc/meminfo");
  const uint64_t room = std::min(groupLimits().roomBytes, freeBytes - freeBytes / 16);
  return room + std::min(privateMemoryBytes(), UINT64_MAX - room);
}

uint64_t privateMemoryBytes() {
  ::malloc_trim(0);
  const uint64_t bytes = bytesNamed("RssAnon:", "/proc/self/status");
  return bytes == UINT64_MAX ? 0 : bytes;
}

} // namespace moert
