// Worker threads that compute one operation together. Each thread owns one contiguous range of the
// indices and computes it chunk by chunk from the front; a thread without work steals half of what
// another has left, from the back. So memory is read in long runs, and results do not depend on
// which thread computed what, because ranges are disjoint.
//
// The caller computes too and never waits for an idle worker: late workers join by work stealing.
// Between two jobs workers spin for about as long as a wake-up takes; then they sleep in a futex
// and use no CPU, for instance while the engine waits for the disk.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/WorkerThread.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace moert {

/// One thread at a time calls run(). `threads` counts the caller, which takes part.
class ThreadPool {
public:
  enum class Shortage { kFails, kTakesFewer }; // If the system cannot start all threads.
  static Result<std::unique_ptr<ThreadPool>> create(uint32_t threads,
                                                    Shortage shortage = Shortage::kFails);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  uint32_t threads() const { return threadCount; }

  /// Calls body(begin, end, thread) on disjoint ranges that cover [0, count), each with at least
  /// `grain` indices as far as count allows, and returns when all are done. Allocates nothing.
  template <typename Body> void run(uint64_t count, uint64_t grain, const Body &body) {
    runErased(
        count, grain,
        [](const void *context, uint64_t begin, uint64_t end, uint32_t thread) {
          (*static_cast<const Body *>(context))(begin, end, thread);
        },
        &body);
  }

private:
  using Function = void (*)(const void *context, uint64_t begin, uint64_t end, uint32_t thread);

  /// The chunks that a thread has not begun, packed (Range in ThreadPool.cpp), on a cache line of
  /// their own: only threads without work read another thread's.
  struct alignas(64) WorkRange {
    std::atomic<uint64_t> open{0};
  };

  explicit ThreadPool(uint32_t threads) : threadCount(threads), workRanges(threads) {}
  void runErased(uint64_t count, uint64_t grain, Function function, const void *context);
  void work(uint32_t thread);
  /// Computes chunks until none are left to take.
  void takeChunks(uint32_t thread);
  /// Computes the thread's own chunks. Returns the job number of its empty range.
  uint32_t computeOwnRange(uint32_t thread, uint32_t &computed);
  /// Steals half of another thread's chunks: one to compute now, the rest as this thread's range.
  /// Only of the given job: while the next job is being handed out, some ranges already hold its
  /// chunks, and this thread's own may be written at any time.
  bool takeFromOthers(uint32_t thread, uint32_t job, uint32_t &chunk);
  void compute(uint32_t chunk, uint32_t thread) const;

  // The running job: written by the caller before any range has chunks of it, read by threads that
  // took one.
  alignas(64) Function jobFunction = nullptr;
  const void *jobContext = nullptr;
  uint64_t jobCount = 0;
  uint32_t jobChunks = 0;
  /// Number of jobs so far; sleeping workers wait on it. On the job's cache line, which they read
  /// next.
  std::atomic<uint32_t> posted{0};

  alignas(64) uint32_t threadCount;
  /// One for each requested thread; threads that could not be started have no chunks.
  std::vector<WorkRange> workRanges;
  std::atomic<bool> stopping{false};
  /// Chunks that are not reported as computed; each thread reports once per job.
  alignas(64) std::atomic<uint32_t> unfinished{0};
  struct Seat {
    ThreadPool *pool;
    uint32_t thread;
  };
  std::vector<Seat> seats;
  std::vector<WorkerThread> workers;
};

} // namespace moert
