#include "runtime/base/ThreadPool.h"

#include "runtime/base/Clock.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moert {

// About the cost of waking a thread (several times higher in a virtual machine), so a wait of any
// length loses at most twice the minimum. Measured by the clock, because a pause takes between 10
// and 130 ns depending on the processor.
static constexpr uint64_t kSpinNs = 30000;
// Pauses between two readings of the clock, which costs as much as a few pauses.
static constexpr int kPausesPerClockRead = 8;

// Several chunks, so that a late or interrupted thread delays the others little.
static constexpr uint32_t kChunksPerThread = 4;

namespace {

/// Chunks [begin, end) of a job. The job's number distinguishes equal ranges of two jobs.
struct Range {
  static constexpr uint64_t kMostChunks = UINT16_MAX;

  uint32_t job;
  uint32_t begin, end;

  static Range of(uint64_t packed) {
    return {static_cast<uint32_t>(packed >> 32), static_cast<uint32_t>(packed >> 16 & UINT16_MAX),
            static_cast<uint32_t>(packed & UINT16_MAX)};
  }
  uint64_t packed() const { return uint64_t(job) << 32 | begin << 16 | end; }
  uint32_t chunks() const { return end - begin; }
};

} // namespace

static void pauseBriefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  // Empties the pipeline. The hint for spinning, yield, does nothing on most cores.
  asm volatile("isb");
#endif
}

// Waits until the value differs from `old`: spinning first, then asleep.
static uint32_t waitForChange(const std::atomic<uint32_t> &value, uint32_t old) {
  const uint64_t begin = monotonicNs();
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
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

void ThreadPool::compute(uint32_t chunk, uint32_t thread) const {
  jobFunction(jobContext, jobCount * chunk / jobChunks, jobCount * (chunk + 1) / jobChunks, thread);
}

uint32_t ThreadPool::computeOwnRange(uint32_t thread, uint32_t &computed) {
  std::atomic<uint64_t> &range = workRanges[thread].open;
  for (uint64_t seen = range.load(std::memory_order_acquire);;) {
    const Range left = Range::of(seen);
    if (left.chunks() == 0)
      return left.job;
    if (!range.compare_exchange_weak(seen, Range{left.job, left.begin + 1, left.end}.packed(),
                                     std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    compute(left.begin, thread);
    ++computed;
    seen = range.load(std::memory_order_acquire);
  }
}

bool ThreadPool::takeFromOthers(uint32_t thread, uint32_t job, uint32_t &chunk) {
  for (size_t i = 1; i < workRanges.size(); ++i) {
    std::atomic<uint64_t> &range = workRanges[(thread + i) % workRanges.size()].open;
    uint64_t seen = range.load(std::memory_order_acquire);
    for (Range left = Range::of(seen); left.job == job && left.chunks() > 0;
         left = Range::of(seen)) {
      const uint32_t middle = left.begin + left.chunks() / 2;
      if (!range.compare_exchange_weak(seen, Range{job, left.begin, middle}.packed(),
                                       std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      // The job cannot end before the taken chunks have been computed, and until then no other
      // thread writes to an empty range.
      workRanges[thread].open.store(Range{job, middle + 1, left.end}.packed(),
                                    std::memory_order_release);
      chunk = middle;
      return true;
    }
  }
  return false;
}

void ThreadPool::takeChunks(uint32_t thread) {
  uint32_t computed = 0;
  uint32_t job = computeOwnRange(thread, computed);
  for (uint32_t chunk; takeFromOthers(thread, job, chunk);) {
    compute(chunk, thread);
    ++computed;
    job = computeOwnRange(thread, computed);
  }
  if (computed > 0 && unfinished.fetch_sub(computed, std::memory_order_acq_rel) == computed)
    unfinished.notify_all();
}

void ThreadPool::runErased(uint64_t count, uint64_t grain, Function function, const void *context) {
  uint64_t most =
      threadCount == 1 ? 1 : std::min(uint64_t(threadCount) * kChunksPerThread, Range::kMostChunks);
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
  const uint32_t job = posted.load(std::memory_order_relaxed) + 1;
  unfinished.store(jobChunks, std::memory_order_relaxed);
  for (uint32_t thread = threadCount; thread-- > 0;) {
    const auto begin = static_cast<uint32_t>(chunks * thread / threadCount);
    const auto end = static_cast<uint32_t>(chunks * (thread + 1) / threadCount);
    workRanges[thread].open.store(Range{job, begin, end}.packed(), std::memory_order_release);
  }
  posted.fetch_add(1, std::memory_order_release); // Not a store: must precede notify_all's check.
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
