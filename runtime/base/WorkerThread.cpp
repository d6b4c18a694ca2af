#include "runtime/base/WorkerThread.h"

#include "runtime/base/FloatMode.h"

#include <csignal>
#include <memory>

namespace moert {

namespace {

struct Beginning {
  void *(*function)(void *);
  void *context;
};

} // namespace

/// A thread begins with the floating-point mode of its creator, which may be any.
static void *runInDefaultMode(void *argument) {
  const Beginning beginning = *std::unique_ptr<Beginning>(static_cast<Beginning *>(argument));
  const DefaultFloatMode mode;
  return beginning.function(beginning.context);
}

Result<WorkerThread> WorkerThread::start(void *(*function)(void *), void *context) {
  auto beginning = std::make_unique<Beginning>(Beginning{function, context});
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  int error = pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (error == 0)
    error = pthread_create(&thread, &attributes, runInDefaultMode, beginning.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0)
    return systemError(error, "starting a thread");
  (void)beginning.release(); // The thread's now.
  return WorkerThread(thread);
}

WorkerThread::WorkerThread(WorkerThread &&other) noexcept
    : thread(other.thread), isRunning(other.isRunning) {
  other.isRunning = false;
}

WorkerThread::~WorkerThread() {
  if (isRunning)
    pthread_join(thread, nullptr);
}

} // namespace moert
