#include "runtime/io/CpuCaches.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

using namespace moert;

namespace {

constexpr size_t kLineBytes = 64;

bool hasProcessorFlag(const std::string &flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags"))
      continue;
    std::istringstream flags(line);
    for (std::string word; flags >> word;)
      if (word == flag)
        return true;
    return false;
  }
  return false;
}

} // namespace

TEST_CASE("disks are virtual where the kernel reports a hypervisor") {
  CHECK(hasVirtualDisks() == (hasProcessorFlag("hypervisor") && hasProcessorFlag("clflushopt")));
}

TEST_CASE("flushed memory keeps what was just written, at its ends and beside it") {
  struct alignas(kLineBytes) Line {
    std::byte bytes[kLineBytes];
  };
  std::vector<Line> lines(66);
  auto *bytes = reinterpret_cast<std::byte *>(lines.data());
  const size_t size = lines.size() * kLineBytes;
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  flushFromCaches({bytes + kLineBytes, size - 2 * kLineBytes - 13});
  flushFromCaches({bytes, 0});
  for (size_t i = 0; i < size; ++i)
    REQUIRE(bytes[i] == static_cast<std::byte>(i * 7 + i / 256));
}
