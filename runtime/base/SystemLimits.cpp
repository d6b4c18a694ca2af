#include "runtime/base/SystemLimits.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <malloc.h>
#include <sched.h>
#include <sstream>
#include <string_view>

namespace moert {

namespace {

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// UINT64_MAX for "max", "-1" and files that are not there: no limit.
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

/// Calls visit(folder) for a group's folder and those of all groups above it.
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

void takeV2(GroupLimits &limits, const std::string &root, const std::string &group) {
  visitUpwards(root, group, [&](const std::string &folder) {
    limits.memoryBytes =
        std::min(limits.memoryBytes, parseLimit(firstLine(folder + "/memory.max")));
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
      limits.memoryBytes =
          std::min(limits.memoryBytes, parseLimit(firstLine(folder + "/memory.limit_in_bytes")));
    });
  if (contains(controllers, "cpu"))
    visitUpwards(root + "/cpu", group, [&](const std::string &folder) {
      limits.cores =
          std::min(limits.cores, coresOf(parseLimit(firstLine(folder + "/cpu.cfs_quota_us")),
                                         parseLimit(firstLine(folder + "/cpu.cfs_period_us"))));
    });
}

uint64_t freeMemoryBytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    std::istringstream fields(line);
    std::string name;
    uint64_t kibibytes = 0;
    if (fields >> name >> kibibytes && name == "MemAvailable:")
      return kibibytes * 1024;
  }
  return UINT64_MAX;
}

} // namespace

GroupLimits groupLimits(const std::string &systemRoot) {
  GroupLimits limits;
  const std::string root = systemRoot + "/sys/fs/cgroup";
  std::ifstream groups(systemRoot + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) { // "NUMBER:CONTROLLERS:GROUP"
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (controllers.empty())
      takeV2(limits, root, group);
    else
      takeV1(limits, root, controllers, group);
  }
  return limits;
}

uint32_t availableCores() {
  cpu_set_t set;
  uint32_t cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    cores = static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
  return std::min(cores, groupLimits().cores);
}

uint64_t availableMemoryBytes() {
  // A system at its last page is a slow one.
  uint64_t freeBytes = freeMemoryBytes();
  return std::min(groupLimits().memoryBytes, freeBytes - freeBytes / 16);
}

uint64_t privateMemoryBytes() {
  ::malloc_trim(0);
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream fields(line);
    std::string name;
    uint64_t kibibytes = 0;
    if (fields >> name >> kibibytes && name == "RssAnon:")
      return kibibytes * 1024;
  }
  return 0;
}

} // namespace moert
