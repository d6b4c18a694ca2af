// A thread of the runtime: with a small stack, which the memory budget can count, with all signals
// blocked, which the program's own threads handle, and in the default floating-point mode.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <pthread.h>

namespace moert {

/// The destructor joins: the owner must have made the function return before. Movable, so that a
/// vector can hold several.
class WorkerThread {
public:
  /// Kernels need a few KiB; the rest is for thread-local data and sanitizer frames.
#ifdef __SANITIZE_THREAD__
  // The thread sanitizer's own thread-local data needs half a MiB; pthread_create() refuses less.
  static constexpr uint64_t kStackBytes = 1024 * 1024;
#else
  static constexpr uint64_t kStackBytes = 128 * 1024;
#endif
  /// Kernel stack (16 KiB), task and signal structures, page tables of the stack; measured at 44
  /// KiB.
  static constexpr uint64_t kKernelBytes = 64 * 1024;

  /// Runs function(context) in a new thread.
  static Result<WorkerThread> start(void *(*function)(void *), void *context);

  WorkerThread(WorkerThread &&other) noexcept;
  WorkerThread &operator=(WorkerThread &&) = delete;
  ~WorkerThread();

private:
  explicit WorkerThread(pthread_t started) : thread(started), isRunning(true) {}

  pthread_t thread;
  bool isRunning;
};

} // namespace moert
