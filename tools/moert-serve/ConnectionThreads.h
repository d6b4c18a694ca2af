// The threads that serve connections: a fixed number, with small stacks that the budget counts.
#pragma once

#include "runtime/base/WorkerThread.h"

#include <httplib.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace moert::serve {

/// Owned by the library's server. While all threads are busy, accepted connections wait: as many as
/// there are threads; further ones are not accepted.
class ConnectionThreads : public httplib::TaskQueue {
public:
  explicit ConnectionThreads(uint32_t count);
  ~ConnectionThreads() override { shutdown(); }

  void enqueue(std::function<void()> serve) override;
  void shutdown() override;

private:
  static void *work(void *self);

  const size_t mostWaiting;
  std::mutex mutex;
  std::condition_variable arrived, taken;
  std::deque<std::function<void()>> waiting;
  bool isStopping = false;
  std::vector<WorkerThread> threads;
};

} // namespace moert::serve
