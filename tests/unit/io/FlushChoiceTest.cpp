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
  FlushChoice choice{fakeClock};
  uint64_t unflushedNs = 0, flushedNs = 0;

  /// Reads one after the other; how many of them were flushed.
  int read(int count) {
    int flushed = 0;
    for (int i = 0; i < count; ++i) {
      bool isFlushed = choice.next();
      flushed += isFlushed;
      choice.begin(isFlushed, 4096, true);
      nowNs += isFlushed ? flushedNs : unflushedNs;
      choice.end();
    }
    return flushed;
  }
};

} // namespace

TEST_CASE("without a difference memory is flushed only to see whether there is one") {
  FakeDisk disk{.unflushedNs = 1000, .flushedNs = 1000};
  CHECK(disk.read(160) == 10);
}

TEST_CASE("memory is flushed while that is clearly faster, and no longer") {
  FakeDisk disk{.unflushedNs = 3000, .flushedNs = 1000};
  disk.read(100);
  CHECK(disk.read(160) == 150);
  disk.unflushedNs = 1000;
  disk.read(200);
  CHECK(disk.read(160) == 10);
  disk.unflushedNs = 1200; // Not worth the processor's time.
  disk.read(200);
  CHECK(disk.read(160) == 10);
}

TEST_CASE("a disk that becomes slow for unflushed memory is noticed at once") {
  FakeDisk disk{.unflushedNs = 1000, .flushedNs = 1000};
  disk.read(160);
  disk.unflushedNs = 3000;
  CHECK(disk.read(16) >= 12);
}

TEST_CASE("a period counts only if all its reads were of one kind and its end was seen") {
  nowNs = 0;
  FlushChoice choice(fakeClock);
  auto period = [&](bool first, bool second, uint64_t ns, bool isSeen) {
    choice.begin(first, 4096, true);
    choice.begin(second, 4096, false);
    nowNs += ns;
    if (isSeen)
      choice.end();
  };
  auto countFlushed = [&] {
    int flushed = 0;
    for (int i = 0; i < 16; ++i)
      flushed += choice.next();
    return flushed;
  };
  for (int i = 0; i < 8; ++i)
    period(true, true, 1000, true);
  for (int i = 0; i < 8; ++i) {
    period(false, true, 9000, true);
    period(true, false, 9000, true);
    period(false, false, 9000, false);
  }
  CHECK(countFlushed() == 1);
  for (int i = 0; i < 8; ++i)
    period(false, false, 9000, true);
  CHECK(countFlushed() == 15);
}

TEST_CASE("memory that was taken out of the caches holds what it held") {
  MESSAGE(std::string(canTakeOutOfCaches() ? "clflushopt" : "SKIPPED: no clflushopt"));
  std::vector<std::byte> memory(100'003);
  std::mt19937 random(3);
  std::generate(memory.begin(), memory.end(), [&] { return static_cast<std::byte>(random()); });
  std::vector<std::byte> before = memory;
  takeOutOfCaches(std::span(memory).subspan(1));
  CHECK(memory == before);
}
