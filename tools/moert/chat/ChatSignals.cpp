#include "tools/moert/chat/ChatSignals.h"

#include <csignal>
#include <unistd.h>

namespace moert::cli {

// Global, since a signal handler cannot reach anything else; lock-free, since it can interrupt any
// code.
static std::atomic<bool> answerStopped = false;
static std::atomic<bool> programEnded = false;
static std::atomic<bool> interruptsInput = false;
static_assert(std::atomic<bool>::is_always_lock_free);

static void onSignal(int signal) {
  if (signal != SIGINT)
    programEnded.store(true, std::memory_order_relaxed);
  answerStopped.store(true, std::memory_order_relaxed);
  if (interruptsInput.load(std::memory_order_relaxed))
    ::alarm(1);
}

// A signal that comes just before the input is read interrupts nothing. This one does, a second
// later, or the next one.
static void onAlarm(int) {
  ::alarm(1);
}

static struct sigaction actionOf(void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = flags;
  return action;
}

static void install(int flags) {
  const struct sigaction action = actionOf(onSignal, flags);
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
  const struct sigaction action = actionOf(onAlarm, 0);
  sigaction(SIGALRM, &action, nullptr);
  interruptsInput.store(true, std::memory_order_relaxed);
  install(0);
}
InterruptibleInput::~InterruptibleInput() {
  interruptsInput.store(false, std::memory_order_relaxed);
  ::alarm(0);
  install(static_cast<int>(SA_RESTART));
}

} // namespace moert::cli
