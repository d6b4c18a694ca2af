// A read queue without a disk's timing: a read is complete when submit() returns. What an engine
// counts with it repeats exactly.
#pragma once

#include "runtime/io/ReadQueue.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace moert::test {

class SynchronousQueue final : public ReadQueue {
public:
  SynchronousQueue(const ArtifactFile &artifactFile, const ReadQueueOptions &options)
      : ReadQueue(options), file(artifactFile) {
    complete.reserve(options.maxReads);
  }

  Status submit(uint64_t tag, uint64_t offset, std::span<const MemoryPiece> pieces) override {
    for (const MemoryPiece &piece : pieces) {
      MOERT_RETURN_IF_ERROR(file.read(offset, {piece.data, piece.bytes}));
      offset += piece.bytes;
    }
    complete.push_back(tag);
    return {};
  }

  Result<size_t> poll(std::span<ReadCompletion> out, bool) override {
    const size_t count = std::min(out.size(), complete.size());
    for (size_t i = 0; i < count; ++i)
      out[i] = {complete[i], Status()};
    complete.erase(complete.begin(), complete.begin() + static_cast<ptrdiff_t>(count));
    return count;
  }

  size_t readsUnderWay() const override { return complete.size(); }

  void registerRegions(std::span<const MemoryPiece>) override {}

private:
  const ArtifactFile &file;
  std::vector<uint64_t> complete; // Tags that poll() has not given out yet.
};

inline Result<std::unique_ptr<ReadQueue>> makeSynchronousQueue(const ArtifactFile &file,
                                                               const ReadQueueOptions &options) {
  return std::unique_ptr<ReadQueue>(new SynchronousQueue(file, options));
}

} // namespace moert::test
