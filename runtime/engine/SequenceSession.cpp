#include "runtime/engine/SequenceSession.h"

#include "runtime/engine/Footprint.h"

#include <algorithm>

namespace moert {

SequenceMemory SequenceMemory::create(const Artifact &artifact, ReservedRegion region,
                                      uint32_t contextTokens, bool slotsShareMemory) {
  SequenceMemory made;
  made.capacity = made.mostTokens = contextTokens;
  made.memory = std::move(region);
  const std::byte *first = made.memory.data();
  const std::byte *next = first, *kvEnd = first;
  uint32_t blocks = contextTokens / kKvBlockTokens;
  const StatePlaces layerKv = slotsShareMemory ? placeLayerKv(artifact) : StatePlaces();
  for (const KvSlot &slot : artifact.kvSlots) {
    if (slotsShareMemory)
      next = first + contextTokens * layerKv.offsets[made.slots.size()];
    Slot &tables = made.slots.emplace_back();
    // The rows of a head are contiguous over all blocks: they are read in half the time that they
    // take where a head's blocks lie 64 KiB apart.
    const std::byte *values = next + uint64_t(contextTokens) * slot.kvHeads * slot.keyRowBytes();
    // Keys without values of their own are listed for all heads: pools' keys are in a second one.
    const uint64_t listed = uint64_t(blocks) * (slot.valueDim == 0 ? slot.kvHeads : 1);
    for (uint64_t block = 0; block < listed; ++block) {
      tables.keyBlocks.push_back(next + block * kKvBlockTokens * slot.keyRowBytes());
      tables.valueBlocks.push_back(slot.valueDim == 0
                                       ? tables.keyBlocks.back()
                                       : values + block * kKvBlockTokens * slot.valueRowBytes());
    }
    next += contextTokens * slot.bytes();
    kvEnd = std::max(kvEnd, next);
  }
  std::byte *states = made.memory.data() + (kvEnd - first);
  for (uint64_t offset : placeStates(artifact, slotsShareMemory).offsets)
    made.states.push_back(reinterpret_cast<float *>(states + offset));
  return made;
}

/// Rows of a head follow each other over all blocks.
static void copyHeads(const std::byte *from, std::byte *to, uint32_t heads, uint64_t fromRows,
                      uint64_t toRows, uint64_t rows, uint64_t rowBytes) {
  for (uint64_t head = 0; head < heads; ++head)
    std::copy_n(from + head * fromRows * rowBytes, rows * rowBytes, to + head * toRows * rowBytes);
}

void SequenceMemory::copyPrefix(const Artifact &artifact, const SequenceMemory &from,
                                uint32_t tokens) {
  for (size_t i = 0; i < from.slots.size() && tokens > 0; ++i) {
    const KvSlot &slot = artifact.kvSlots[i];
    auto *keys = const_cast<std::byte *>(slots[i].keyBlocks[0]);
    auto *values = const_cast<std::byte *>(slots[i].valueBlocks[0]);
    copyHeads(from.slots[i].keyBlocks[0], keys, slot.kvHeads, from.capacity, capacity, tokens,
              slot.keyRowBytes());
    if (slot.valueDim != 0)
      copyHeads(from.slots[i].valueBlocks[0], values, slot.kvHeads, from.capacity, capacity, tokens,
                slot.valueRowBytes());
  }
  for (size_t i = 0; i < from.states.size(); ++i) {
    const StateSlot &slot = artifact.stateSlots[i];
    std::copy_n(from.states[i], uint64_t(slot.rows) * slot.width, states[i]);
  }
  length = tokens;
  areStatesLost = false;
}

SequenceSession::SequenceSession(SequenceMemory sequenceMemory,
                                 std::vector<SequenceSession *> *list)
    : memory(std::move(sequenceMemory)), listed(list) {
  if (listed)
    listed->push_back(this);
}

SequenceSession::~SequenceSession() {
  if (listed)
    std::erase(*listed, this);
}

void SequenceSession::forgetEngine() {
  listed = nullptr;
  memory.memory.leaveLedger();
  memory.onDevice.reset(); // Its device ends with the engine.
}

void SequenceSession::reset() {
  memory.length = memory.inputTokens = 0;
  memory.areStatesLost = false;
}

bool SequenceSession::rewind(uint32_t tokens) {
  if (tokens > memory.length || (tokens < memory.length && !memory.states.empty()))
    return false;
  memory.length = tokens;
  return true;
}

} // namespace moert
