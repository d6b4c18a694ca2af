#include "runtime/io/FlushChoice.h"

#include "runtime/io/CpuCaches.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <random>
#include <vector>

using namespace moert;

static uint64_t nowNs;

static uint64_t fakeClock() {
  return nowNs;
}

namespace {

/// A disk that takes so many ns for a block, by whether its memory was flushed.
struct FakeDisk {
  FlushChoice choice{fakeClock, true};
  uint64_t unflushedNs = 0, flushedNs = 0;

  /// Periods of so many reads each, one after the other; how many periods were flushed.
  int read(int periods, int together = 1) {
    int flushed = 0;
    for (int i = 0; i < periods; ++i) {
      choice.begin(false);
      flushed += choice.isFlushing();
      for (int k = 0; k < together; ++k) {
        choice.add(choice.isFlushing(), 4096);
        nowNs += choice.isFlushing() ? flushedNs : unflushedNs;
      }
      choice.end();
    }
    return flushed;
  }
};

} // namespace

TEST_CASE("without a difference memory is flushed only to see whether there is one") {
  FakeDisk disk{.unflushedNs = 1000, .flushedNs = 1000};
  CHECK(disk.read(170) == 10);
}

TEST_CASE("memory is flushed while that is clearly faster, and no longer") {
  for (int together : {1, 4}) {
    CAPTURE(together);
    FakeDisk disk{.unflushedNs = 3000, .flushedNs = 1000};
    disk.read(170, together);
    CHECK(disk.read(170, together) == 160);
    disk.unflushedNs = 1000;
    disk.read(170, together);
    CHECK(disk.read(170, together) == 10);
    disk.unflushedNs = 1200; // Not worth the processor's time.
    disk.read(170, together);
    CHECK(disk.read(170, together) == 10);
  }
}

TEST_CASE("a disk that becomes slow for unflushed memory is noticed at once") {
  FakeDisk disk{.unflushedNs = 1000, .flushedNs = 1000};
  disk.read(170);
  disk.unflushedNs = 3000;
  CHECK(disk.read(16) == 15);
}

TEST_CASE("where memory cannot be flushed it is not") {
  FlushChoice choice(fakeClock, false);
  for (int i = 0; i < 100; ++i) {
    choice.begin(false);
    CHECK(!choice.isFlushing());
  }
}

TEST_CASE("a request that was flushed before makes its period one of flushed memory") {
  FlushChoice choice(fakeClock, true);
  choice.begin(true);
  CHECK(choice.isFlushing());
  choice.begin(false);
  CHECK(!choice.isFlushing());
}

TEST_CASE("a period counts only if all its requests were of one kind and its end was seen") {
  FakeDisk disk{.unflushedNs = 1000, .flushedNs = 1000};
  FlushChoice &choice = disk.choice;
  disk.read(170);
  auto period = [&](bool first, bool second, uint64_t ns, bool isSeen) {
    choice.begin(first);
    choice.add(first, 4096);
    choice.add(second, 4096);
    nowNs += ns;
    if (isSeen)
      choice.end();
  };
  for (int i = 0; i < 8; ++i) {
    period(false, true, 90000, true);
    period(false, false, 90000, false);
  }
  choice.begin(true);
  CHECK(disk.read(17) == 1);
  for (int i = 0; i < 8; ++i)
    period(false, false, 90000, true);
  CHECK(disk.read(17) >= 8);
}

TEST_CASE("memory that was flushed from the caches holds what it held") {
  if (!canFlushFromCaches()) {
    MESSAGE("SKIPPED: no clflushopt");
    return;
  }
  std::vector<std::byte> memory(100'003);
  std::mt19937 random(3);
  std::generate(memory.begin(), memory.end(), [&] { return static_cast<std::byte>(random()); });
  std::vector<std::byte> before = memory;
  flushFromCaches(memory);
  CHECK(memory == before);
}
