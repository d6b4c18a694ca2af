#include "tools/moert/probe/ProbeReader.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace moert::probe {

constexpr uint64_t kPieceBytes = 64 << 10; // Adjacent pages of a pool.

Places::Places(uint64_t fileBytes, uint64_t recordBytes, bool isOnce)
    : record(recordBytes), slots(fileBytes / recordBytes), isRepeated(!isOnce) {
  std::iota(slots.begin(), slots.end(), uint64_t{0});
  std::shuffle(slots.begin(), slots.end(), random);
}

std::optional<uint64_t> Places::next() {
  if (used == slots.size()) {
    if (!isRepeated)
      return std::nullopt;
    used = 0;
  }
  return slots[used++] * record;
}

std::byte *MemoryRing::next(uint64_t bytes) {
  if (used + bytes > keptEnd)
    used = keptFirst;
  return &memory[std::exchange(used, used + bytes)];
}

Result<ProbeReader> ProbeReader::create(const ArtifactFile &file, HostRegion &memory,
                                        IoBackend backend) {
  const MemoryPiece region{memory.data(), memory.bytes()};
  ReadQueueOptions options;
  options.backend = backend;
  options.maxReads = kMostRecords;
  options.registeredRegions = {&region, 1};
  MOERT_ASSIGN_OR_RETURN(std::unique_ptr<ReadQueue> queue, createReadQueue(file, options));
  return ProbeReader(std::move(queue), memory.span());
}

Status ProbeReader::begin(uint64_t offset, uint64_t bytes) {
  std::byte *place = places.next(bytes);
  std::array<MemoryPiece, kMostRecordBytes / kPieceBytes> pieces;
  size_t count = 0;
  for (uint64_t at = 0; at < bytes; at += kPieceBytes)
    pieces[count++] = {place + at, std::min(kPieceBytes, bytes - at)};
  MOERT_RETURN_IF_ERROR(queue->submit(reads, offset, std::span(pieces).first(count)));
  ++reads;
  return {};
}

Result<size_t> ProbeReader::takeEnded(bool wait) {
  std::array<ReadCompletion, kMostRecords> completions;
  MOERT_ASSIGN_OR_RETURN(size_t count, queue->poll(completions, wait && reads > 0));
  for (size_t i = 0; i < count; ++i)
    MOERT_RETURN_IF_ERROR(completions[i].status);
  reads -= static_cast<uint32_t>(count);
  return count;
}

} // namespace moert::probe
