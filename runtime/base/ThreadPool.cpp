#include "runtime/base/ThreadPool.h"

#include "runtime/base/Clock.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moert {

// About what waking a thread costs, in a virtual machine several times as much as elsewhere: so the
// time lost to a wait of any length is at most twice the least possible. By the clock, since a
// pause takes between 10 and 130 ns, as the processor has it.
static constexpr uint64_t kSpinNs = 30000;
// Between two looks at the clock, which costs as much as a few of them.
static constexpr int kPausesPerLook = 8;

// More chunks than threads, so that a thread which comes late, or is interrupted, holds up nobody
// for long; few enough that each is a long run of memory.
static constexpr uint32_t kChunksPerThread = 4;

// `open` is the job's number above this many bits of chunks left.
static constexpr int kLeftBits = 32;

static void pauseBriefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  // Empties the pipeline. The hint meant for this, yield, does nothing on most cores.
  asm volatile("isb");
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

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(uint32_t threads, Shortage shortage) {
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
    if (!worker.isOk() && shortage == Shortage::kTakesFewer) {
      pool->threadCount = i;
      break;
    }
    if (!worker.isOk())
      return failed(worker.status().message(), " for --threads ", threads, "; try fewer");
    pool->workers.push_back(std::move(worker).value());
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  stopping.store(true, std::memory_order_relaxed);
  posted.fetch_add(1, std::memory_order_release);
  posted.notify_all();
  workers.clear();
}

void ThreadPool::takeChunks(uint32_t thread) {
  for (uint64_t seen = open.load(std::memory_order_acquire); static_cast<uint32_t>(seen) != 0;) {
    if (!open.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire))
      continue;
    // The job cannot end, and so not change, before this chunk has.
    uint32_t chunk = jobChunks - static_cast<uint32_t>(seen);
    jobFunction(jobContext, jobCount * chunk / jobChunks, jobCount * (chunk + 1) / jobChunks,
                thread);
    if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1)
      unfinished.notify_all();
    seen = open.load(std::memory_order_acquire);
  }
}

void ThreadPool::runErased(uint64_t count, uint64_t grain, Function function, const void *context) {
  uint64_t most = threadCount == 1 ? 1 : uint64_t(threadCount) * kChunksPerThread;
  uint64_t chunks = std::min(most, count / std::max<uint64_t>(1, grain));
  if (chunks <= 1) {
    if (count != 0)
      function(context, 0, count, 0);
    return;
  }
  jobFunction = function;
  jobContext = context;
  jobCount = count;
  jobChunks = static_cast<uint32_t>(chunks);
  unfinished.store(jobChunks, std::memory_order_relaxed);
  uint64_t job = (open.load(std::memory_order_relaxed) >> kLeftBits) + 1;
  open.store(job << kLeftBits | chunks, std::memory_order_release);
  posted.fetch_add(1, std::memory_order_release);
  posted.notify_all();
  takeChunks(0);
  for (uint32_t left = unfinished.load(std::memory_order_acquire); left != 0;)
    left = waitForChange(unfinished, left);
}

void ThreadPool::work(uint32_t thread) {
  for (uint32_t seen = posted.load(std::memory_order_acquire);;
       seen = waitForChange(posted, seen)) {
    if (stopping.load(std::memory_order_relaxed))
      return;
    takeChunks(thread);
  }
}

} // namespace moert
