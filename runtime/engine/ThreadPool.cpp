#include "runtime/engine/ThreadPool.h"

#include "runtime/base/Clock.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moert {

// What falling asleep and being woken costs: so the time lost to a wait of any length is at most
// twice the least possible. By the clock, since a pause takes between 10 and 130 ns, as the
// processor has it: 4000 of them, meant as 20 us, took 0.4 ms here, and two threads that shared
// their processors with other programs decoded at a quarter of one thread's rate.
static constexpr uint64_t kSpinNs = 5000;
// Between two looks at the clock, which costs as much as a few of them.
static constexpr int kPausesPerLook = 8;

static void pauseBriefly() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Waits until the value differs from `old`: spinning first, then asleep.
static uint32_t waitForChange(const std::atomic<uint32_t> &value, uint32_t old) {
  const uint64_t begin = monotonicNs();
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      uint32_t now = value.load(std::memory_order_acquire);
      if (now != old)
        return now;
      pauseBriefly();
    }
  } while (monotonicNs() - begin < kSpinNs);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(uint32_t threads) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool(std::max(1u, threads)));
  pool->workers.reserve(pool->threadCount - 1);
  pool->seats.reserve(pool->threadCount - 1); // Threads hold pointers to them.
  for (uint32_t i = 1; i < pool->threadCount; ++i) {
    pool->seats.push_back({pool.get(), i});
    Result<WorkerThread> worker = WorkerThread::start(
        [](void *seat) -> void * {
          static_cast<Seat *>(seat)->pool->work(static_cast<Seat *>(seat)->thread);
          return nullptr;
        },
        &pool->seats.back());
    if (!worker.isOk())
      return failed(worker.status().message(), " for --threads ", threads, "; try fewer");
    pool->workers.push_back(std::move(worker).value());
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  stopping.store(true, std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_release);
  generation.notify_all();
  workers.clear();
}

void ThreadPool::takePart(uint32_t part, uint32_t thread) const {
  uint64_t begin = jobCount * part / jobParts, end = jobCount * (part + 1) / jobParts;
  if (begin < end)
    jobFunction(jobContext, begin, end, thread);
}

void ThreadPool::runErased(uint64_t count, uint64_t grain, Function function, const void *context) {
  uint64_t parts = std::min<uint64_t>(threadCount, count / std::max<uint64_t>(1, grain));
  if (parts <= 1) {
    if (count != 0)
      function(context, 0, count, 0);
    return;
  }
  jobFunction = function;
  jobContext = context;
  jobCount = count;
  jobParts = static_cast<uint32_t>(parts);
  running.store(threadCount - 1, std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_release);
  generation.notify_all();
  takePart(0, 0);
  for (uint32_t left = running.load(std::memory_order_acquire); left != 0;)
    left = waitForChange(running, left);
}

void ThreadPool::work(uint32_t thread) {
  uint32_t seen = 0;
  while (true) {
    seen = waitForChange(generation, seen);
    if (stopping.load(std::memory_order_relaxed))
      return;
    if (thread < jobParts)
      takePart(thread, thread);
    if (running.fetch_sub(1, std::memory_order_acq_rel) == 1)
      running.notify_all();
  }
}

} // namespace moert
