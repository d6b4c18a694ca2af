// A read queue over a file in memory, which completes reads in an order that the test decides.
// Bytes appear in memory at completion and not before, so whoever reads early reads garbage.
#pragma once

#include "runtime/io/ReadQueue.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

namespace moert {

class FakeReadQueue final : public ReadQueue {
public:
  struct Pending {
    uint64_t tag = 0;
    uint64_t fileOffset = 0;
    std::vector<MemoryPiece> pieces;
    bool fails = false;
  };

  static ReadQueueOptions limits(uint32_t maxReads) {
    ReadQueueOptions options;
    options.maxReads = maxReads;
    options.maxPiecesPerRead = 16;
    options.maxReadBytes = 1024 * 1024;
    return options;
  }

  explicit FakeReadQueue(std::span<const std::byte> fileBytes, uint32_t maxReads = 64)
      : ReadQueue(limits(maxReads)), file(fileBytes), pending(maxReads) {
    for (Pending &read : pending)
      read.pieces.reserve(16);
  }

  Status submit(uint64_t tag, uint64_t fileOffset, std::span<const MemoryPiece> pieces) override {
    MOERT_RETURN_IF_ERROR(broken());
    const bool isRefused = submitsUntilError-- == 0;
    if (isRefused && !breaksAtError)
      return failed("fake: submit refused");
    if (underWay == pending.size())
      return failed("fake: too many reads");
    Pending &read = pending[underWay++];
    read.tag = tag;
    read.fileOffset = fileOffset;
    read.fails = fileOffset == failingOffset;
    read.pieces.assign(pieces.begin(), pieces.end());
    mostUnderWay = std::max(mostUnderWay, underWay);
    ++submitted;
    return isRefused ? breakDown(failed("fake: broken at submit")) : Status();
  }

  /// Without wait it completes `eager` reads, with wait at least one.
  Result<size_t> poll(std::span<ReadCompletion> out, bool wait) override {
    MOERT_RETURN_IF_ERROR(broken());
    if (isBroken)
      return failed("fake: broken");
    size_t wish = wait ? std::max<size_t>(1, eager) : eager;
    size_t count = std::min({wish, out.size(), underWay});
    for (size_t i = 0; i < count; ++i)
      complete(choose(underWay) % underWay, out[i]);
    return count;
  }

  size_t readsUnderWay() const override { return underWay; }

  void registerRegions(std::span<const MemoryPiece>) override {}

  /// What a broken queue's reads still do.
  void landAll() {
    ReadCompletion ignored;
    while (underWay > 0)
      complete(0, ignored);
  }

  /// Lets one of the pending reads fail.
  void failPending(size_t index) { pending[index].fails = true; }

  /// Which of n pending reads completes next; the first one unless told.
  std::function<size_t(size_t)> choose = [](size_t) { return size_t(0); };
  size_t eager = 0;
  uint64_t failingOffset = UINT64_MAX; // For reads that are submitted from now on.
  uint64_t submitsUntilError = UINT64_MAX;
  bool breaksAtError = false; // That submit: its read was begun, and the queue is broken.
  bool isBroken = false;
  size_t mostUnderWay = 0;
  size_t submitted = 0;

private:
  void complete(size_t index, ReadCompletion &out) {
    std::swap(pending[index], pending[underWay - 1]);
    const Pending &read = pending[--underWay];
    out.tag = read.tag;
    out.status = Status();
    uint64_t offset = read.fileOffset;
    for (const MemoryPiece &piece : read.pieces) {
      std::memcpy(piece.data, file.data() + offset, piece.bytes);
      offset += piece.bytes;
    }
    if (read.fails)
      out.status = failed("fake.moe: read at offset ", read.fileOffset, " failed");
  }

  std::span<const std::byte> file;
  std::vector<Pending> pending; // The first underWay of them.
  size_t underWay = 0;
};

} // namespace moert
