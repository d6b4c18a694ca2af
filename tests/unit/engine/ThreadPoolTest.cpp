#include "runtime/engine/ThreadPool.h"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>
#include <vector>

using namespace moert;

TEST_CASE("every index is visited once, whatever the number of threads and the grain") {
  for (uint32_t threads : {1u, 2u, 3u, 7u}) {
    auto pool = ThreadPool::create(threads);
    REQUIRE(pool.isOk());
    for (uint64_t count : {0, 1, 2, 5, 100, 1001}) {
      for (uint64_t grain : {1, 3, 64}) {
        std::vector<int> visits(count, 0);
        (*pool)->run(count, grain, [&](uint64_t begin, uint64_t end, uint32_t thread) {
          REQUIRE(thread < threads);
          for (uint64_t i = begin; i < end; ++i)
            ++visits[i];
        });
        CHECK(std::accumulate(visits.begin(), visits.end(), uint64_t(0)) == count);
        CHECK(std::count(visits.begin(), visits.end(), 1) == static_cast<long>(count));
      }
    }
  }
}

TEST_CASE("work below the grain stays with the caller") {
  auto pool = ThreadPool::create(4);
  REQUIRE(pool.isOk());
  (*pool)->run(7, 8, [&](uint64_t begin, uint64_t end, uint32_t thread) {
    CHECK(begin == 0);
    CHECK(end == 7);
    CHECK(thread == 0);
  });
}

TEST_CASE("jobs that follow each other closely see each other's results") {
  auto pool = ThreadPool::create(3);
  REQUIRE(pool.isOk());
  std::vector<uint64_t> values(64, 1);
  for (int round = 0; round < 2000; ++round)
    (*pool)->run(values.size(), 1, [&](uint64_t begin, uint64_t end, uint32_t) {
      for (uint64_t i = begin; i < end; ++i)
        ++values[i];
    });
  CHECK(std::count(values.begin(), values.end(), uint64_t(2001)) == 64);
}
