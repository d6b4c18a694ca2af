#include "compiler/planning/WeightsCopy.h"

#include "runtime/format/Verify.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <system_error>

using namespace moert;

namespace moec {

namespace {

/// A source that writes all bytes read to the same offset of an output. Checking a file reads each
/// of its bytes once, so checking this source copies the file.
class CopiedSource final : public ByteSource {
public:
  CopiedSource(const ByteSource &copied, uint64_t copiedBytes, OutputFile &copy,
               const std::function<bool()> &stopped)
      : source(copied), end(copiedBytes), output(copy), isStopped(stopped) {}

  const std::string &name() const override { return source.name(); }
  uint64_t bytes() const override { return source.bytes(); }
  Status read(uint64_t offset, std::span<std::byte> into) const override {
    if (isStopped())
      return Status(StatusCode::kInterrupted, "interrupted");
    MOERT_RETURN_IF_ERROR(source.read(offset, into));
    const uint64_t left = end - std::min(end, offset);
    return output.writeAt(offset, into.first(std::min<uint64_t>(into.size(), left)));
  }

private:
  const ByteSource &source;
  uint64_t end;
  OutputFile &output;
  const std::function<bool()> &isStopped;
};

} // namespace

WeightsCopy::WeightsCopy(const ByteSource &source, uint64_t weightsEnd, OutputFile &output,
                         const std::atomic<bool> *stopFlag)
    : stop(stopFlag), allBytes(source.bytes()) {
  try {
    thread =
        std::thread([this, &source, weightsEnd, &output] { copy(source, weightsEnd, output); });
  } catch (const std::system_error &) {
    copy(source, weightsEnd, output); // No thread could be started: copy now, before planning.
  }
}

WeightsCopy::~WeightsCopy() {
  isGivenUp = true;
  if (thread.joinable())
    thread.join();
}

bool WeightsCopy::isStopped() const {
  return isGivenUp || (stop && stop->load(std::memory_order_relaxed));
}

void WeightsCopy::copy(const ByteSource &source, uint64_t weightsEnd, OutputFile &output) {
  const std::function<bool()> stopped = [this] { return isStopped(); };
  Status status = verifyArtifact(CopiedSource(source, weightsEnd, output, stopped),
                                 [this](uint64_t done, uint64_t) { doneBytes = done; });
  // An interruption has no useful location.
  if (status.code() == StatusCode::kInterrupted)
    status = Status(StatusCode::kInterrupted, "interrupted");
  std::lock_guard lock(mutex);
  result = std::move(status);
  hasEnded = true;
  ended.notify_one();
}

/// Returns whether the copy has ended.
bool WeightsCopy::waitAWhile() {
  std::unique_lock lock(mutex);
  return ended.wait_for(lock, std::chrono::milliseconds(100), [this] { return hasEnded; });
}

Status WeightsCopy::wait(const Session &session) {
  if (!waitAWhile() && session.progress)
    session.progress->begin("copying weights", allBytes, doneBytes);
  while (!waitAWhile())
    if (session.progress)
      session.progress->advanceTo(doneBytes);
  if (session.progress)
    session.progress->end();
  std::lock_guard lock(mutex);
  return result;
}

} // namespace moec
