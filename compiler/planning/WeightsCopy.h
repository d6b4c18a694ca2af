// Copies an artifact's weights into another artifact: reads, checks and writes them once, in a
// thread of its own, while plans are made.
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

/// Borrows its arguments. No one else may write to the output until wait() has returned. Used by
/// one thread; the destructor stops and joins the copying thread.
class WeightsCopy {
public:
  /// Starts to copy the bytes before weightsEnd to the same offsets of the output, which must be
  /// empty. readArtifact() must accept the source. The gaps between sections are zero and are not
  /// written.
  WeightsCopy(const moert::ByteSource &source, uint64_t weightsEnd, moert::OutputFile &output,
              const std::atomic<bool> *stop);
  ~WeightsCopy();

  /// Waits for the end and shows progress. An error if any part of the source is damaged, even
  /// after the weights: once the source is deleted, only the copy would remain.
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
  bool hasEnded = false; // The mutex guards this and the next member.
  moert::Status result;
  std::thread thread;
};

} // namespace moec
