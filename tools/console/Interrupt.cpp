#include "tools/console/Interrupt.h"

#include <csignal>
#include <cstdint>
#include <ctime>

namespace moert::cli {

// Global, since a signal handler cannot reach anything else; lock-free, since it can interrupt any
// code.
static std::atomic<bool> interrupted = false;
static std::atomic<int64_t> firstMs = 0; // Monotonic clock, since the system's start.
static_assert(std::atomic<bool>::is_always_lock_free);
static_assert(std::atomic<int64_t>::is_always_lock_free);

// A parent process may forward Ctrl-C in addition to the terminal's signal; both are one request.
constexpr int64_t kSameWishMs = 500;

static void onSignal(int signal) {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC, &now); // POSIX allows it in a signal handler.
  const int64_t nowMs = int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
  int64_t first = 0;
  interrupted.store(true, std::memory_order_relaxed);
  // A closed terminal sends SIGHUP twice, itself and through the shell.
  if (firstMs.compare_exchange_strong(first, nowMs) || signal == SIGHUP ||
      nowMs - first < kSameWishMs)
    return;
  std::signal(signal, SIG_DFL);
  ::raise(signal); // Delivered after this handler returns, which blocks it.
}

const std::atomic<bool> &catchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  // Restart interrupted reads: commands poll the flag between steps.
  action.sa_flags = static_cast<int>(SA_RESTART);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // nohup ignores SIGHUP; keep that.
  struct sigaction before = {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  return interrupted;
}

} // namespace moert::cli
