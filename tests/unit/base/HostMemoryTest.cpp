#include "runtime/base/HostMemory.h"

#include <algorithm>
#include <cstring>
#include <doctest/doctest.h>
#include <fstream>
#include <limits>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

using namespace moert;

static size_t readyPages(const HostRegion &region) {
  size_t pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present(region.bytes() / pageBytes);
  REQUIRE(mincore(region.data(), region.bytes(), present.data()) == 0);
  return static_cast<size_t>(
      std::count_if(present.begin(), present.end(), [](unsigned char p) { return p & 1; }));
}

TEST_CASE("all pages of a populated region exist before the first access") {
  size_t pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  Result<HostRegion> region = HostRegion::create(64 * pageBytes - 1);
  REQUIRE(region.isOk());
  CHECK(region->bytes() == 64 * pageBytes);
  CHECK(readyPages(*region) == 64);
  CHECK(readyPages(*HostRegion::create(64 * pageBytes, Populate::kNo)) == 0);
}

TEST_CASE("a region that the address space cannot hold is refused with its size") {
  Result<HostRegion> refused = HostRegion::create(std::numeric_limits<uint64_t>::max());
  REQUIRE(!refused.isOk());
  CHECK(refused.status().message().find("18446744073709551615") != std::string::npos);
  CHECK(HostRegion::create(uint64_t(1) << 62).status().code() == StatusCode::kFailed);
}

TEST_CASE("a moved region leaves an empty one behind and keeps its memory in place") {
  Result<HostRegion> first = HostRegion::create(4096);
  std::byte *start = first->data();
  HostRegion second = std::move(*first);
  CHECK(second.data() == start);
  CHECK(first->data() == nullptr);
  CHECK(HostRegion::create(0)->bytes() == 0);
}

/// The private memory of this process; 0 where the system does not report it.
static uint64_t privateBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;)
    if (uint64_t kibibytes = 0; name == "RssAnon:" && status >> kibibytes)
      return kibibytes * 1024;
  return 0;
}

TEST_CASE("a region that shrinks gives its end back, and keeps its content at its address") {
  constexpr uint64_t kMiB = 1 << 20;
  HostRegion region = HostRegion::create(64 * kMiB).value();
  std::byte *start = region.data();
  std::memset(start, 7, region.bytes());
  const uint64_t before = privateBytes();
  // In the middle of a huge page, if it is in huge pages.
  REQUIRE(region.resize(5 * kMiB + 4096).isOk());
  CHECK(region.bytes() == 5 * kMiB + 4096);
  CHECK(region.data() == start);
  CHECK(std::all_of(start, start + region.bytes(), [](std::byte b) { return b == std::byte(7); }));
  if (before == 0)
    MESSAGE("SKIPPED: no RssAnon here");
  else
    CHECK(privateBytes() + 58 * kMiB < before); // 59 MiB, and what the heap did meanwhile.
  REQUIRE(region.resize(0).isOk());
  CHECK(region.bytes() == 0);
}

TEST_CASE("a region that grows keeps its content, and all of its new pages exist") {
  const size_t pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  HostRegion region;
  REQUIRE(region.resize(3 * pageBytes).isOk());
  std::memset(region.data(), 7, region.bytes());
  REQUIRE(region.resize(700 * pageBytes).isOk());
  CHECK(region.bytes() == 700 * pageBytes);
  CHECK(readyPages(region) == 700);
  CHECK(region.data()[3 * pageBytes - 1] == std::byte(7));
  CHECK(std::all_of(region.data() + 3 * pageBytes, region.data() + region.bytes(),
                    [](std::byte b) { return b == std::byte(0); }));
}

TEST_CASE("a region that cannot grow stays as it was") {
  HostRegion region = HostRegion::create(8192).value();
  std::byte *start = region.data();
  for (uint64_t bytes : {uint64_t(1) << 62, std::numeric_limits<uint64_t>::max()}) {
    CHECK(region.resize(bytes).code() == StatusCode::kFailed);
    CHECK(region.data() == start);
    CHECK(region.bytes() == 8192);
    CHECK(readyPages(region) == 2);
  }
}
