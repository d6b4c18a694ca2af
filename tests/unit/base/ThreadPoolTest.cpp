#include "runtime/base/ThreadPool.h"

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <numeric>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

using namespace moert;

TEST_CASE("every index is visited once for any number of threads and any grain") {
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

constexpr int kNotHere = 255;

// Forks a process. Returns the number of threads of a pool of four if the system starts none; 0 if
// creation is refused; kNotHere if root is the only user.
static int threadsWithoutAny(ThreadPool::Shortage shortage) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const rlimit none = {0, 0};
    constexpr uid_t kNobody = 65534; // The limit does not hold for root.
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || (geteuid() == 0 && setuid(kNobody) != 0))
      _exit(kNotHere);
    auto pool = ThreadPool::create(4, shortage);
    _exit(pool.isOk() ? static_cast<int>((*pool)->threads()) : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_CASE(
    "if no thread can be started, a pool is refused, or has only the caller if fewer will do") {
  if (threadsWithoutAny(ThreadPool::Shortage::kFails) == kNotHere) {
    MESSAGE("SKIPPED: root cannot become another user here");
    return;
  }
  CHECK(threadsWithoutAny(ThreadPool::Shortage::kFails) == 0);
  CHECK(threadsWithoutAny(ThreadPool::Shortage::kTakesFewer) == 1);
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

TEST_CASE("jobs in quick succession see each other's results") {
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

TEST_CASE("idle threads compute the remaining chunks") {
  auto pool = ThreadPool::create(2);
  REQUIRE(pool.isOk());
  // The thread that takes the first index keeps it until all others have been computed.
  std::atomic<uint32_t> others{0};
  (*pool)->run(8, 1, [&](uint64_t begin, uint64_t end, uint32_t) {
    for (uint64_t i = begin; i < end; ++i) {
      if (i != 0)
        ++others;
      while (i == 0 && others < 7)
        std::this_thread::yield();
    }
  });
  CHECK(others == 7);
}

TEST_CASE(
    "each thread computes its own range from the front, then steals halves of the others' ranges") {
  auto pool = ThreadPool::create(2);
  REQUIRE(pool.isOk());
  // The caller waits for the worker to begin, the worker for the caller to do all the rest.
  std::vector<uint64_t> caller, worker;
  std::atomic<bool> hasWorkerBegun{false};
  std::atomic<uint32_t> computed{0};
  (*pool)->run(8, 1, [&](uint64_t begin, uint64_t, uint32_t thread) {
    if (thread == 0) {
      caller.push_back(begin);
      while (!hasWorkerBegun)
        std::this_thread::yield();
      ++computed;
    } else {
      worker.push_back(begin);
      hasWorkerBegun = true;
      while (computed < 7)
        std::this_thread::yield();
    }
  });
  CHECK(caller == std::vector<uint64_t>{0, 1, 2, 3, 6, 7, 5});
  CHECK(worker == std::vector<uint64_t>{4});
}

// Short jobs: a worker often steals from one job while the next begins.
TEST_CASE("threads that steal from each other compute every chunk of every job once") {
  for (uint32_t threads : {2u, 4u}) {
    auto pool = ThreadPool::create(threads);
    REQUIRE(pool.isOk());
    std::vector<std::atomic<uint32_t>> visits(2 * threads);
    constexpr uint32_t kJobs = 100000;
    for (uint32_t job = 0; job < kJobs; ++job)
      (*pool)->run(job % 2 == 0 ? threads : 2 * threads, 1,
                   [&](uint64_t begin, uint64_t end, uint32_t) {
                     for (uint64_t i = begin; i < end; ++i)
                       ++visits[i];
                   });
    for (uint32_t i = 0; i < visits.size(); ++i)
      CHECK(visits[i] == (i < threads ? kJobs : kJobs / 2));
  }
}

// Measures CPU time, so that other programs make no difference. A gap costs each worker 30 us of
// spinning and a sleep, with the thread sanitizer some 85 us in all; spinning through the whole gap
// would cost 2 ms.
TEST_CASE("workers that wait for a job soon sleep") {
  constexpr uint32_t kWorkers = 2, kGaps = 50;
  auto pool = ThreadPool::create(kWorkers + 1);
  REQUIRE(pool.isOk());
  auto processorNs = [] {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
  };
  uint64_t begin = processorNs();
  for (uint32_t gap = 0; gap < kGaps; ++gap) {
    (*pool)->run(kWorkers + 1, 1, [](uint64_t, uint64_t, uint32_t) {});
    usleep(2000);
  }
  CHECK((processorNs() - begin) / (kGaps * kWorkers) < 400000);
}
