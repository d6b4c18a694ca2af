#include "tools/console/Interrupt.h"

#include <csignal>

namespace moert::cli {

// Global, since a signal handler can reach nothing else; lock-free, since it interrupts anything.
static std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

static void onSignal(int) {
  interrupted.store(true, std::memory_order_relaxed);
}

const std::atomic<bool> &catchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  // Reads go on: the flag is looked at between steps. The second signal finds the default again.
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed terminal sends it by itself and through the shell; nohup asks to be spared.
  action.sa_flags = static_cast<int>(SA_RESTART);
  struct sigaction before = {};
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  return interrupted;
}

} // namespace moert::cli
