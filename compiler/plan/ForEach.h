// Independent pieces of work on some threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace moec {

/// Calls work(0) to work(count - 1), each once, in this order as threads get free, and waits for
/// all. Where the system has not so many threads, fewer do it. No call may throw.
template <typename Work> void forEach(size_t count, uint32_t threads, const Work &work) {
  std::atomic<size_t> next = 0;
  auto takeTurns = [&] {
    for (size_t i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min<size_t>(threads, count); ++i)
    try {
      others.emplace_back(takeTurns);
    } catch (const std::system_error &) {
      break;
    }
  takeTurns();
  for (std::thread &thread : others)
    thread.join();
}

} // namespace moec
