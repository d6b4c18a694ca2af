// Threads that serve connections: a fixed number, with small stacks that the budget counts.
#pragma once

#include "runtime/base/WorkerThread.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace moert::serve {

/// While all threads are busy, so many connections wait.
class ConnectionThreads {
public:
  /// Fewer threads where the system refuses more.
  ConnectionThreads(uint32_t count, size_t mostWaitingTasks);
  ~ConnectionThreads() { shutdown(); }

  size_t size() const { return threads.size(); }
  /// Returns false if too many wait. The function must not throw.
  bool enqueue(std::function<void()> serve);
  /// Returns once what waits is served.
  void shutdown();

private:
  static void *work(void *self);

  const size_t mostWaiting;
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<std::function<void()>> waiting;
  bool isStopping = false;
  std::vector<WorkerThread> threads;
};

} // namespace moert::serve
