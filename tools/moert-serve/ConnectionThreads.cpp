#include "tools/moert-serve/ConnectionThreads.h"

namespace moert::serve {

ConnectionThreads::ConnectionThreads(uint32_t count, size_t mostWaitingTasks)
    : mostWaiting(mostWaitingTasks) {
  threads.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    Result<WorkerThread> thread = WorkerThread::start(work, this);
    if (!thread.isOk())
      break; // Fewer connections at a time.
    threads.push_back(std::move(thread).value());
  }
}

void *ConnectionThreads::work(void *self) {
  auto &queue = *static_cast<ConnectionThreads *>(self);
  while (true) {
    std::function<void()> serve;
    {
      std::unique_lock<std::mutex> lock(queue.mutex);
      queue.arrived.wait(lock, [&] { return queue.isStopping || !queue.waiting.empty(); });
      if (queue.waiting.empty())
        return nullptr;
      serve = std::move(queue.waiting.front());
      queue.waiting.pop_front();
    }
    serve();
  }
}

bool ConnectionThreads::enqueue(std::function<void()> serve) {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (isStopping || waiting.size() >= mostWaiting)
      return false;
    waiting.push_back(std::move(serve));
  }
  arrived.notify_one();
  return true;
}

void ConnectionThreads::shutdown() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    isStopping = true;
  }
  arrived.notify_all();
  threads.clear(); // Joins.
}

} // namespace moert::serve
