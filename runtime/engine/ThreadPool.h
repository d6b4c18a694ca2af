// Worker threads that share the computing of one operation. Work is cut by index, never by time, so
// who computes what is fixed; results do not depend on it anyway (every kernel's outputs are
// disjoint).
//
// Between operations of a step workers spin for a few microseconds, since most often the next one
// follows as soon; then they sleep in a futex and burn nothing.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/WorkerThread.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace moert {

/// Owned by the engine; one thread calls run(). `threads` counts the caller, which takes part.
class ThreadPool {
public:
  static Result<std::unique_ptr<ThreadPool>> create(uint32_t threads);
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
  void takePart(uint32_t part, uint32_t thread) const;

  // The job being run: written by the caller before `generation` is raised, read by workers after.
  Function jobFunction = nullptr;
  const void *jobContext = nullptr;
  uint64_t jobCount = 0;
  uint32_t jobParts = 0;

  const uint32_t threadCount;
  alignas(64) std::atomic<uint32_t> generation{0};
  alignas(64) std::atomic<uint32_t> running{0};
  std::atomic<bool> stopping{false};
  struct Seat {
    ThreadPool *pool;
    uint32_t thread;
  };
  std::vector<Seat> seats;
  std::vector<WorkerThread> workers;
};

} // namespace moert
