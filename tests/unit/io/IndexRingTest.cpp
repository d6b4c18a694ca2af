#include "runtime/io/IndexRing.h"

#include <atomic>
#include <doctest/doctest.h>
#include <thread>
#include <vector>

using namespace moert;

TEST_CASE("a ring returns indices in order and reports full and empty") {
  IndexRing ring(3); // Rounded up to 4.
  uint32_t value = 0;
  for (uint32_t turn = 0; turn < 5; ++turn) {
    CHECK(!ring.pop(value));
    for (uint32_t i = 0; i < 4; ++i)
      CHECK(ring.push(turn * 10 + i));
    CHECK(!ring.push(99));
    for (uint32_t i = 0; i < 4; ++i) {
      REQUIRE(ring.pop(value));
      CHECK(value == turn * 10 + i);
    }
  }
}

TEST_CASE("between threads no index is lost or repeated") {
  constexpr uint32_t kPerWriter = 20000, kWriters = 2, kReaders = 2;
  IndexRing ring(64);
  std::vector<std::atomic<uint32_t>> seen(kPerWriter * kWriters);
  std::atomic<uint32_t> taken = 0;
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWriters; ++w)
    threads.emplace_back([&, w] {
      for (uint32_t i = 0; i < kPerWriter; ++i)
        while (!ring.push(w * kPerWriter + i))
          std::this_thread::yield();
    });
  for (uint32_t r = 0; r < kReaders; ++r)
    threads.emplace_back([&] {
      uint32_t value;
      while (taken.load() < kPerWriter * kWriters)
        if (ring.pop(value)) {
          seen[value].fetch_add(1);
          taken.fetch_add(1);
        } else {
          std::this_thread::yield();
        }
    });
  for (std::thread &thread : threads)
    thread.join();
  bool isEachOnce = true;
  for (const std::atomic<uint32_t> &count : seen)
    isEachOnce = isEachOnce && count.load() == 1;
  CHECK(isEachOnce);
}
