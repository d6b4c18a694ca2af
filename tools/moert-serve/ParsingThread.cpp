#include "tools/moert-serve/ParsingThread.h"

namespace moert::serve {

ParsingThread::~ParsingThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    isEnding = true;
  }
  changed.notify_all();
  thread.join();
}

void ParsingThread::run(const std::function<void()> &function) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [&] { return !isBusy; });
  isBusy = true;
  isDone = false;
  wanted = &function;
  changed.notify_all();
  changed.wait(lock, [&] { return isDone; });
  isBusy = false;
  changed.notify_all();
}

void ParsingThread::work() {
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return isEnding || wanted; });
    if (!wanted)
      return;
    const std::function<void()> *function = wanted;
    wanted = nullptr;
    lock.unlock();
    (*function)();
    lock.lock();
    isDone = true;
    changed.notify_all();
  }
}

} // namespace moert::serve
