#include "runtime/engine/ResidentWeights.h"

#include "runtime/base/CheckedMath.h"
#include "runtime/base/Checksum.h"
#include "runtime/io/ArtifactFile.h"

#include <algorithm>
#include <array>
#include <utility>

namespace moert {

Status readResidents(ReadQueue &queue, uint64_t fileOffset, std::span<std::byte> into,
                     const std::function<void(std::span<const std::byte>)> &take) {
  const uint64_t pieces = divideUp(into.size(), kResidentReadBytes);
  auto pieceAt = [&](uint64_t piece) {
    const uint64_t begin = piece * kResidentReadBytes;
    return into.subspan(begin, std::min<uint64_t>(kResidentReadBytes, into.size() - begin));
  };
  std::vector<bool> isRead(pieces, false);
  Status failure;
  uint64_t submitted = 0, taken = 0;
  while (taken < pieces) {
    while (failure.isOk() && submitted < pieces && queue.readsUnderWay() < queue.maxReads()) {
      const MemoryPiece piece = {pieceAt(submitted).data(), pieceAt(submitted).size()};
      failure = queue.submit(submitted, fileOffset + submitted * kResidentReadBytes, {&piece, 1});
      ++submitted;
    }
    if (queue.readsUnderWay() == 0)
      break; // After an error.
    std::array<ReadCompletion, 8> completions;
    MOERT_ASSIGN_OR_RETURN(const size_t count, queue.poll(completions, true));
    for (size_t i = 0; i < count; ++i) {
      isRead[completions[i].tag] = true;
      if (failure.isOk())
        failure = std::move(completions[i].status);
    }
    for (; failure.isOk() && taken < pieces && isRead[taken]; ++taken)
      if (take)
        take(pieceAt(taken));
  }
  return std::move(failure).withContext("resident weights");
}

Status checkResidents(const Model &model, uint64_t found) {
  const uint64_t expected = model.artifact().residentChecksum;
  return found == expected
             ? Status()
             : invalidInput(model.path(), ": the resident weights have checksum ",
                            formatChecksum(found), ", expected ", formatChecksum(expected));
}

ResidentWeights::ResidentWeights(const Artifact &artifact, ReservedRegion memory)
    : region(std::move(memory)), pages(artifact.residents.size()) {
  for (size_t i = 0; i < pages.size(); ++i) {
    const ResidentWeight &weight = artifact.residents[i];
    views.push_back({weight.shape, weight.format, layoutOf(weight.shape, weight.format).value(),
                     PagedBytes::contiguous(&pages[i])});
  }
}

Status ResidentWeights::load(const Model &model, ReadQueue &queue,
                             const std::function<void(uint64_t done)> &progress) {
  const Artifact &artifact = model.artifact();
  ChecksumStream checksum;
  uint64_t done = 0;
  MOERT_RETURN_IF_ERROR(readResidents(
      queue, artifact.residentOffset,
      memory().first(roundUp(artifact.residentBytes, ArtifactFile::kAlignment)),
      [&](std::span<const std::byte> piece) {
        // The section's end is padded.
        const uint64_t own = std::min<uint64_t>(piece.size(), artifact.residentBytes - done);
        checksum.update(piece.first(own));
        progress(done += own);
      }));
  MOERT_RETURN_IF_ERROR(checkResidents(model, checksum.digest()));
  for (size_t i = 0; i < pages.size(); ++i)
    place(i, artifact.residents[i].offset);
  return {};
}

} // namespace moert
