#include "runtime/base/HostMemory.h"

#include "tests/unit/support/FailAllocations.h"

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

TEST_CASE("a region that gets no more memory is whole and where it was, also if it had to move") {
  const size_t pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (bool isFollowed : {false, true}) {
    HostRegion region = HostRegion::create(64 * pageBytes).value();
    std::memset(region.data(), 7, region.bytes());
    // A mapping right after the region, so that it cannot grow where it is.
    void *next = region.data() + region.bytes();
    if (isFollowed)
      next = mmap(next, pageBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                  0);
    std::byte *const start = region.data();
    for (uint64_t successes : {0, 1}) {
      const FailingAllocation failing(successes);
      const Status refused = region.resize(1000 * pageBytes);
      CHECK(refused.code() == StatusCode::kFailed);
      CHECK(failing.failed() ==
            (successes == 0 ? AllocationKind::kRemap : AllocationKind::kPopulate));
      CHECK(refused.message().find(successes == 0 ? "mapping" : "taking") != std::string::npos);
    }
    CHECK(region.data() == start);
    CHECK(region.bytes() == 64 * pageBytes);
    CHECK(readyPages(region) == 64);
    CHECK(
        std::all_of(start, start + region.bytes(), [](std::byte b) { return b == std::byte(7); }));
    REQUIRE(region.resize(1000 * pageBytes).isOk());
    CHECK(region.data()[0] == std::byte(7));
    if (isFollowed && next != MAP_FAILED)
      munmap(next, pageBytes);
  }
}

TEST_CASE("an empty region that gets no memory stays empty") {
  HostRegion region;
  for (uint64_t successes : {0, 1}) {
    const FailingAllocation failing(successes);
    CHECK(region.resize(1 << 20).code() == StatusCode::kFailed);
    CHECK(failing.failed() == (successes == 0 ? AllocationKind::kMap : AllocationKind::kPopulate));
    CHECK(region.bytes() == 0);
  }
  CHECK(region.resize(1 << 20).isOk());
}

TEST_CASE("pages that are given back keep their addresses and come back as zeros") {
  const size_t pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  HostRegion region = HostRegion::create(64 * pageBytes).value();
  std::memset(region.data(), 7, region.bytes());
  region.release(10 * pageBytes + 1);
  CHECK(region.bytes() == 64 * pageBytes);
  CHECK(readyPages(region) == 11);
  CHECK(region.data()[11 * pageBytes - 1] == std::byte(7));
  CHECK(region.data()[11 * pageBytes] == std::byte(0));
}
