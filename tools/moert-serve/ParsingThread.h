// A thread with a large stack for what goes through a request's JSON: connections' threads have
// small ones, and one parsed body at a time bounds the memory, which is many times that of its
// text.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace moert::serve {

class ParsingThread {
public:
  /// What its stack and one body at a time take at most.
  static constexpr uint64_t kStackBytes = uint64_t(2) << 20;

  ParsingThread() : thread([this] { work(); }) {}
  ~ParsingThread();

  /// Calls the function in the thread and returns after it has; from any other thread. What it
  /// throws is thrown here.
  void run(const std::function<void()> &function);

private:
  void work();

  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void()> *wanted = nullptr;
  std::exception_ptr thrown;
  bool isBusy = false, isDone = false, isEnding = false;
  std::thread thread; // The last member: it uses the others.
};

} // namespace moert::serve
