// Worker threads that share the computing of one operation. Each has its share of the indices, one
// range, which it computes chunk by chunk from the front; whoever is done takes half of what
// another one has left, from its back. So memory is read in long runs, and results do not depend on
// who read them, since ranges are disjoint.
//
// The caller has a share too and waits for nobody who is at none: a worker that was asleep comes
// when it comes, and helps with what is left. Between two jobs workers spin for about as long as
// waking them would take; then they sleep in a futex and burn nothing, as while the disk is waited
// for.
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
  enum class Shortage { kFails, kTakesFewer }; // Where the system has not so many threads.
  static Result<std::unique_ptr<ThreadPool>> create(uint32_t threads,
                                                    Shortage shortage = Shortage::kFails);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  uint32_t threads() const { return threadCount; }

  /// Calls body(begin, end, thread) on disjoint ranges that make up [0, count), with at least
  /// `grain` indices each as far as count allows, and returns when all are done. Allocates nothing.
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

  /// The chunks that a thread is to compute and has not begun, packed (Range in ThreadPool.cpp),
  /// on a line of their own: only threads that have run out look at another one's.
  struct alignas(64) Share {
    std::atomic<uint64_t> open{0};
  };

  explicit ThreadPool(uint32_t threads) : threadCount(threads), shares(threads) {}
  void runErased(uint64_t count, uint64_t grain, Function function, const void *context);
  void work(uint32_t thread);
  /// Computes chunks until it finds none. What another thread is just taking is that one's.
  void takeChunks(uint32_t thread);
  /// The thread's own chunks. Returns the job whose share has run out.
  uint32_t computeShare(uint32_t thread, uint32_t &computed);
  /// Half of what another thread has left: a chunk to be computed now, and the rest as the share of
  /// this one. Of the job of which that has run out alone: while the next job is handed out, some
  /// shares hold chunks of it already, and this thread's may get its own at any time.
  bool takeFromOthers(uint32_t thread, uint32_t job, uint32_t &chunk);
  void compute(uint32_t chunk, uint32_t thread) const;

  // The job being run: written by the caller before a share has chunks of it, read by whoever has
  // taken one.
  alignas(64) Function jobFunction = nullptr;
  const void *jobContext = nullptr;
  uint64_t jobCount = 0;
  uint32_t jobChunks = 0;
  /// Jobs so far: what sleeping workers watch. On the job's line, which they read next.
  std::atomic<uint32_t> posted{0};

  alignas(64) uint32_t threadCount;
  /// One for each thread that was wished for: those that could not be started have none of a job.
  std::vector<Share> shares;
  std::atomic<bool> stopping{false};
  /// Chunks whose computing has not ended, as far as it was told: once by each thread.
  alignas(64) std::atomic<uint32_t> unfinished{0};
  struct Seat {
    ThreadPool *pool;
    uint32_t thread;
  };
  std::vector<Seat> seats;
  std::vector<WorkerThread> workers;
};

} // namespace moert
