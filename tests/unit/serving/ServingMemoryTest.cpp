// The memory that requests reserve: it is never more than its capacity.
#include "runtime/serving/ServingMemory.h"

#include <doctest/doctest.h>
#include <thread>
#include <vector>

using namespace moert;

TEST_CASE("a reservation has its own bytes free, reserves more, and gives it back at its end") {
  ServingMemory memory(100);
  {
    ServingMemory::Reservation first(memory, 10), second(memory, 10);
    CHECK(first.resize(10));
    CHECK(memory.used() == 0);
    CHECK(first.add(60));
    CHECK(memory.used() == 60);
    CHECK_FALSE(second.resize(51));
    CHECK(second.bytes() == 0);
    CHECK(second.resize(50));
    CHECK(memory.used() == 100);
    CHECK_FALSE(first.add(1));
    CHECK_FALSE(first.resize(UINT64_MAX));
    CHECK(first.resize(0));
    CHECK(memory.used() == 40);
  }
  CHECK(memory.used() == 0);
}

TEST_CASE("reservations of several threads are never more than the capacity together") {
  ServingMemory memory(1000);
  std::vector<std::thread> threads;
  std::atomic<bool> isOver = false;
  for (uint64_t number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      for (uint64_t i = 0; i < 2000; ++i) {
        ServingMemory::Reservation reservation(memory, 0);
        (void)reservation.resize(100 + (i * 7 + number * 131) % 500);
        isOver = isOver || memory.used() > memory.capacity();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  CHECK_FALSE(isOver);
  CHECK(memory.used() == 0);
}
