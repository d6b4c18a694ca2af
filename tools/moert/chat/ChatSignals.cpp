#include "tools/moert/chat/ChatSignals.h"

#include <csignal>

namespace moert::cli {

// Global, since a signal handler cannot reach anything else; lock-free, since it can interrupt any
// code.
static std::atomic<bool> answerStopped = false;
static std::atomic<bool> programEnded = false;
static_assert(std::atomic<bool>::is_always_lock_free);

static void onSignal(int signal) {
  if (signal != SIGINT)
    programEnded.store(true, std::memory_order_relaxed);
  answerStopped.store(true, std::memory_order_relaxed);
}

static void install(int flags) {
  struct sigaction action = {};
  action.sa_handler = onSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = flags;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    if (sigaction(signal, nullptr, &before) == 0 &&
        (signal != SIGHUP || before.sa_handler != SIG_IGN))
      sigaction(signal, &action, nullptr);
  }
}

ChatSignals catchChatSignals() {
  install(static_cast<int>(SA_RESTART));
  return {answerStopped, programEnded};
}

InterruptibleInput::InterruptibleInput() {
  install(0);
}
InterruptibleInput::~InterruptibleInput() {
  install(static_cast<int>(SA_RESTART));
}

} // namespace moert::cli
