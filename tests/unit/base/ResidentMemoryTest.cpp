#include "runtime/base/ResidentMemory.h"

#include "runtime/base/HostMemory.h"

#include <doctest/doctest.h>

using namespace moert;

TEST_CASE("the resident set grows by the memory that is populated") {
  const ResidentMemory memory;
  const uint64_t before = memory.bytes();
  REQUIRE(before > 0);
  constexpr uint64_t kBytes = uint64_t(64) << 20;
  auto region = HostRegion::create(kBytes);
  REQUIRE(region.isOk());
  // Other threads of the process may give memory back meanwhile.
  CHECK(memory.bytes() > before + kBytes / 2);
}
