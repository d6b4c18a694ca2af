// Threads that serve connections: what is refused, and that a failed allocation loses nothing else.
#include "tools/moert-serve/ConnectionThreads.h"

#include "tests/unit/support/FailAllocations.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <new>
#include <optional>

using moert::serve::ConnectionThreads;

TEST_CASE("beyond the bound, and after the shutdown, nothing is enqueued") {
  std::atomic<bool> isOpen = false;
  std::atomic<uint32_t> served = 0;
  ConnectionThreads threads(1, 2);
  REQUIRE(threads.size() == 1);
  auto serve = [&] {
    isOpen.wait(false);
    ++served;
  };
  uint32_t taken = 0;
  while (threads.enqueue(serve))
    ++taken;
  CHECK(taken >= 2); // And one more if the thread has begun.
  isOpen = true;
  isOpen.notify_all();
  threads.shutdown();
  CHECK(served == taken);
  CHECK_FALSE(threads.enqueue(serve));
}

TEST_CASE("a function that there is no memory to enqueue is not served, and all others are") {
  constexpr uint32_t kTasks = 200; // More than a block of the queue.
  std::atomic<uint32_t> served = 0;
  uint32_t taken = 0, failed = 0;
  ConnectionThreads threads(1, kTasks);
  // Too large to be held without an allocation.
  const std::array<char, 64> held = {};
  for (uint32_t i = 0; i < kTasks; ++i) {
    std::function<void()> serve = [&served, held] { served += held[0] == 0; };
    std::optional<moert::FailingAllocation> failing;
    if (i % 2 == 0)
      failing.emplace(0);
    try {
      taken += threads.enqueue(std::move(serve));
    } catch (const std::bad_alloc &) {
      ++failed;
    }
  }
  threads.shutdown();
  CHECK(served == taken);
  CHECK(taken + failed == kTasks);
}
