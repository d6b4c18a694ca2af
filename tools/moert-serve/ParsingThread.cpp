#include "tools/moert-serve/ParsingThread.h"

#include <utility>

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
  const std::exception_ptr error = std::exchange(thrown, nullptr);
  lock.unlock();
  changed.notify_all();
  if (error)
    std::rethrow_exception(error);
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
    std::exception_ptr error;
    try {
      (*function)();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    thrown = std::move(error);
    isDone = true;
    changed.notify_all();
  }
}

} // namespace moert::serve
