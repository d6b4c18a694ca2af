// The weights of an artifact on their way into another one: read once, checked and written, by a
// thread of its own, so that plans are made meanwhile.
#pragma once

#include "compiler/session/Session.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Status.h"
#include "runtime/format/Reader.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace moec {

/// Borrows all that it is given. The output is its own until it has ended: nobody else writes
/// before wait() has returned. Used by one thread; destroyed, it gives up and joins its own.
class WeightsCopy {
public:
  /// Begins to copy what lies before weightsEnd of a source that readArtifact() accepts to the same
  /// place of the output, which is empty. What lies between sections is zeros, and is not written.
  WeightsCopy(const moert::ByteSource &source, uint64_t weightsEnd, moert::OutputFile &output,
              const std::atomic<bool> *stop);
  ~WeightsCopy();

  /// Shows the rest of the way. Refuses a source with damage anywhere, behind the weights too: a
  /// copy of it would be all that is left, once the source is gone.
  moert::Status wait(const Session &session);

private:
  void copy(const moert::ByteSource &source, uint64_t weightsEnd, moert::OutputFile &output);
  bool isStopped() const;
  bool waitAWhile();

  const std::atomic<bool> *stop;
  std::atomic<bool> isGivenUp = false;
  std::atomic<uint64_t> doneBytes = 0;
  uint64_t allBytes;
  std::mutex mutex;
  std::condition_variable ended;
  bool hasEnded = false; // Guarded by the mutex, as is what follows.
  moert::Status result;
  std::thread thread;
};

} // namespace moec
