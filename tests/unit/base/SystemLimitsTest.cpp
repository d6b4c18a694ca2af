#include "runtime/base/SystemLimits.h"

#include "tests/unit/support/TemporaryDirectory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

using namespace moert;
namespace fs = std::filesystem;

namespace {

/// A directory with the files of proc and sys that name a process's groups.
struct FakeSystem {
  TemporaryDirectory directory;
  const std::string &root = directory.path();

  void write(const std::string &path, const std::string &text) const {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text << "\n";
  }
};

} // namespace

TEST_CASE("without control groups there are no limits") {
  FakeSystem system;
  CHECK(groupLimits(system.root).roomBytes == UINT64_MAX);
  CHECK(groupLimits(system.root).cores == UINT32_MAX);
}

TEST_CASE("the smallest limit on the path to the root applies") {
  FakeSystem system;
  system.write("/proc/self/cgroup", "0::/outer/inner");
  system.write("/sys/fs/cgroup/outer/inner/memory.max", "max");
  system.write("/sys/fs/cgroup/outer/inner/cpu.max", "max 100000");
  system.write("/sys/fs/cgroup/outer/memory.max", "1000000");
  system.write("/sys/fs/cgroup/outer/cpu.max", "250000 100000");
  CHECK(groupLimits(system.root).roomBytes == 1000000);
  CHECK(groupLimits(system.root).cores == 3);
}

TEST_CASE("a container whose own group is the root finds its limits there") {
  FakeSystem system;
  system.write("/proc/self/cgroup", "0::/");
  system.write("/sys/fs/cgroup/memory.max", "4096");
  system.write("/sys/fs/cgroup/cpu.max", "50000 100000");
  CHECK(groupLimits(system.root).roomBytes == 4096);
  CHECK(groupLimits(system.root).cores == 1);
}

TEST_CASE("groups of version 1 are found by their controllers") {
  FakeSystem system;
  system.write("/proc/self/cgroup", "5:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/job");
  system.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "123456");
  system.write("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000");
  system.write("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000");
  CHECK(groupLimits(system.root).roomBytes == 123456);
  CHECK(groupLimits(system.root).cores == 4);
}

TEST_CASE("memory that a group's processes hold reduces the room, file pages do not") {
  FakeSystem system;
  system.write("/proc/self/cgroup", "0::/outer/inner");
  system.write("/sys/fs/cgroup/outer/inner/memory.max", "max");
  system.write("/sys/fs/cgroup/outer/inner/memory.current", "5000000");
  system.write("/sys/fs/cgroup/outer/memory.max", "9000000");
  system.write("/sys/fs/cgroup/outer/memory.current", "7000000");
  system.write(
      "/sys/fs/cgroup/outer/memory.stat",
      "anon 3000000\nfile 4000000\ninactive_file 2500000\nactive_file 500000\nshmem 1000000");
  CHECK(groupLimits(system.root).roomBytes == 9000000 - 7000000 + 3000000);
}

TEST_CASE("a group of version 1 counts the pages of those below it as well") {
  FakeSystem system;
  system.write("/proc/self/cgroup", "4:memory:/job");
  system.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000");
  system.write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1000");
  system.write("/sys/fs/cgroup/memory/job/memory.stat",
               "inactive_file 1\ntotal_inactive_file 300\ntotal_active_file 100");
  CHECK(groupLimits(system.root).roomBytes == 400);
}

TEST_CASE("a limit without a usage count leaves the whole limit as room") {
  FakeSystem system;
  system.write("/proc/self/cgroup", "0::/");
  system.write("/sys/fs/cgroup/memory.max", "4096");
  CHECK(groupLimits(system.root).roomBytes == 4096);
}

TEST_CASE("a quota of -1 means no quota") {
  FakeSystem system;
  system.write("/proc/self/cgroup", "5:cpu:/");
  system.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1");
  system.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  CHECK(groupLimits(system.root).cores == UINT32_MAX);
}

TEST_CASE(
    "of machine and container the one with less memory counts, for the limit and for the room") {
  FakeSystem system;
  system.write("/proc/meminfo", "MemTotal: 8000 kB\nMemFree: 10 kB\nMemAvailable: 3000 kB");
  SystemMemory machine = systemMemory(system.root);
  CHECK(machine.limit.bytes == 8000 * 1024);
  CHECK(machine.room.bytes == 3000 * 1024);
  CHECK_FALSE(machine.limit.isOfContainer);
  CHECK_FALSE(machine.room.isOfContainer);
  system.write("/proc/self/cgroup", "0::/job");
  system.write("/sys/fs/cgroup/job/memory.max", "4096000");
  system.write("/sys/fs/cgroup/job/memory.current", "1000");
  SystemMemory both = systemMemory(system.root);
  CHECK(both.limit.bytes == 4096000);
  CHECK(both.limit.isOfContainer);
  CHECK(both.room.bytes == 3000 * 1024);
  CHECK_FALSE(both.room.isOfContainer);
  system.write("/sys/fs/cgroup/job/memory.current", "4000000");
  CHECK(systemMemory(system.root).room.bytes == 96000);
  CHECK(systemMemory(system.root).room.isOfContainer);
}

TEST_CASE("a group of version 1 has its limit and its room") {
  FakeSystem system;
  system.write("/proc/self/cgroup", "4:memory:/job");
  system.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000");
  system.write("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "900");
  CHECK(systemMemory(system.root).limit.bytes == 1000);
  CHECK(systemMemory(system.root).room.bytes == 100);
}

TEST_CASE("this process has a core and some memory") {
  CHECK(availableCores() >= 1);
  CHECK(availableMemoryBytes() > 0);
}

namespace {

constexpr uint64_t kMiB = 1 << 20;

/// A process with 40 MiB of private memory on a machine that has 800 MiB left.
void writeProcess(const FakeSystem &system, const std::string &groups) {
  system.write("/proc/self/cgroup", groups);
  system.write("/proc/self/status", "Name: moert\nRssAnon:\t 40960 kB");
  system.write("/proc/meminfo", "MemTotal: 2048000 kB\nMemAvailable: 819200 kB");
}

} // namespace

TEST_CASE("a follower without control groups looks at what the machine has left") {
  FakeSystem system;
  writeProcess(system, "0::/");
  const MemorySignals signals = memorySignals(system.root);
  CHECK(signals.bound.bytes == (800 - 50 + 40) * kMiB);
  CHECK_FALSE(signals.bound.isOfContainer);
  CHECK_FALSE(signals.stalledNs.has_value());
  system.write("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\n"
                                        "full avg10=0.00 avg60=0.00 avg300=0.00 total=7");
  CHECK(memorySignals(system.root).stalledNs == 1234000);
}

TEST_CASE("the size that a group is to keep to goes before its limit, in both versions") {
  FakeSystem system;
  writeProcess(system, "0::/job");
  system.write("/sys/fs/cgroup/job/memory.max", std::to_string(300 * kMiB));
  CHECK(memorySignals(system.root).bound.bytes == 300 * kMiB);
  CHECK(memorySignals(system.root).bound.isOfContainer);
  system.write("/sys/fs/cgroup/job/memory.high", std::to_string(200 * kMiB));
  CHECK(memorySignals(system.root).bound.bytes == 200 * kMiB);
  writeProcess(system, "4:memory:/job");
  system.write("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", std::to_string(100 * kMiB));
  CHECK(memorySignals(system.root).bound.bytes == 100 * kMiB);
  system.write("/sys/fs/cgroup/memory/job/memory.soft_limit_in_bytes", std::to_string(90 * kMiB));
  CHECK(memorySignals(system.root).bound.bytes == 90 * kMiB);
}

TEST_CASE("what other processes of a group have allocated is not there to be taken") {
  FakeSystem system;
  writeProcess(system, "0::/job");
  system.write("/sys/fs/cgroup/job/memory.max", std::to_string(4000 * kMiB));
  CHECK(memorySignals(system.root).bound.bytes == 790 * kMiB); // The machine's.
  system.write("/sys/fs/cgroup/job/memory.max", std::to_string(400 * kMiB));
  system.write("/sys/fs/cgroup/job/memory.stat", "anon " + std::to_string(40 * kMiB) + "\nfile " +
                                                     std::to_string(300 * kMiB) + "\nshmem 0");
  CHECK(memorySignals(system.root).bound.bytes == 400 * kMiB);
  system.write("/sys/fs/cgroup/job/memory.stat",
               "anon " + std::to_string(200 * kMiB) + "\nshmem " + std::to_string(40 * kMiB));
  // Others have 200 MiB, but for the kernel's precision.
  const uint64_t bound = memorySignals(system.root).bound.bytes;
  CHECK(bound >= 200 * kMiB);
  CHECK(bound <= 200 * kMiB + kMiB * static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_ONLN)));
}

TEST_CASE("the pressure of the process's own group goes before the machine's") {
  FakeSystem system;
  writeProcess(system, "0::/outer/job");
  system.write("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5");
  system.write("/sys/fs/cgroup/outer/memory.pressure", "some avg10=1.00 avg60=0 avg300=0 total=6");
  CHECK(memorySignals(system.root).stalledNs == 6000);
  system.write("/sys/fs/cgroup/outer/job/memory.pressure",
               "some avg10=1.00 avg60=0 avg300=0 total=7");
  CHECK(memorySignals(system.root).stalledNs == 7000);
  system.write("/sys/fs/cgroup/outer/job/memory.pressure", "some avg10=1.00");
  CHECK(memorySignals(system.root).stalledNs == 6000);
}
