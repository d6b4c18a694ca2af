#include "runtime/base/HostMemory.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <limits>
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
