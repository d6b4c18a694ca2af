#include "runtime/base/WorkerThread.h"

#include <csignal>

namespace moert {

Result<WorkerThread> WorkerThread::start(void *(*function)(void *), void *context) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  int error = pthread_attr_setstacksize(&attributes, kStackBytes);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (error == 0)
    error = pthread_create(&thread, &attributes, function, context);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0)
    return systemError(error, "starting a thread");
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
