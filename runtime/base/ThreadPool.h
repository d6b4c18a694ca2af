// Worker threads that share the computing of one operation. Work is cut into chunks, which whoever
// is free takes; results do not depend on who that is, since ranges are disjoint.
//
// The caller takes chunks too and waits for nobody who has none: a worker that was asleep comes
// when it comes, and helps with what is left. Between two jobs workers spin for about
// as long as waking them would take; then they sleep in a futex and burn nothing, as while the disk
// is waited for.
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

  explicit ThreadPool(uint32_t threads) : threadCount(threads) {}
  void runErased(uint64_t count, uint64_t grain, Function function, const void *context);
  void work(uint32_t thread);
  /// Computes chunks until none is left to take.
  void takeChunks(uint32_t thread);

  // The job being run: written by the caller before `open` has chunks of it, read by whoever has
  // taken one.
  Function jobFunction = nullptr;
  const void *jobContext = nullptr;
  uint64_t jobCount = 0;
  uint32_t jobChunks = 0;

  uint32_t threadCount;
  /// Chunks of the job that nobody has taken yet, below the job's number, which tells apart two
  /// jobs that have as many left.
  alignas(64) std::atomic<uint64_t> open{0};
  /// What sleeping workers watch: changes with every job.
  std::atomic<uint32_t> posted{0};
  /// Chunks whose computing has not ended.
  alignas(64) std::atomic<uint32_t> unfinished{0};
  std::atomic<bool> stopping{false};
  struct Seat {
    ThreadPool *pool;
    uint32_t thread;
  };
  std::vector<Seat> seats;
  std::vector<WorkerThread> workers;
};

} // namespace moert
