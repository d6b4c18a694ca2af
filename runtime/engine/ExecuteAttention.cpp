// Executes the instructions of attention: rotary embedding, storing keys and values, attending.
#include "runtime/engine/EngineImpl.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>

namespace moert {

void Engine::Impl::fillRopeTables() {
  for (uint32_t row = 0; row < rows(); ++row) {
    for (size_t i = 0; i < artifact->ropes.size(); ++i) {
      const Rope &rope = artifact->ropes[i];
      const bool isLong = rope.originalPositions != 0 && sequenceTokens > rope.originalPositions;
      const auto &frequencies = isLong ? rope.longInverseFrequencies : rope.inverseFrequencies;
      uint32_t count = static_cast<uint32_t>(frequencies.size());
      float *cosines = ropeTables.data() + uint64_t(row) * ropeFloatsPerRow + ropeOffsets[i];
      kernels->ropeTable(batch[row].position, frequencies.data(), count,
                         isLong ? rope.longAttentionFactor : rope.attentionFactor, cosines,
                         cosines + roundUp(count, 16));
    }
  }
}

void Engine::Impl::executeRope(const RopeInstruction &instruction) {
  const Rope &rope = artifact->ropes[instruction.rope];
  uint32_t count = static_cast<uint32_t>(rope.inverseFrequencies.size());
  Rows x = buffer(instruction.buffer);
  for (uint32_t row = 0; row < rows(); ++row) {
    const float *cosines =
        ropeTables.data() + uint64_t(row) * ropeFloatsPerRow + ropeOffsets[instruction.rope];
    kernels->rope(x.floats(row), instruction.heads, instruction.headDim, cosines,
                  cosines + roundUp(count, 16), count, rope.style == RopeStyle::kInterleaved);
  }
}

namespace {

/// Where a slot stores the heads of a token: `dim` elements from byte `first` on of rows of
/// `rowBytes`.
struct StoredHeads {
  uint32_t heads, dim;
  uint64_t first, rowBytes, headRows;
};

/// Stores one token's row of all heads at its position in a block, head by head.
void storeHeads(const KernelTable &kernels, KvKind kind, const float *row,
                const StoredHeads &stored, uint32_t place, const std::byte *block) {
  // The tables are const to the kernels; the engine owns the session's memory.
  auto *to = const_cast<std::byte *>(block) + place * stored.rowBytes + stored.first;
  for (uint32_t head = 0; head < stored.heads; ++head)
    kernels.storeKvRow(kind, row + uint64_t(head) * stored.dim, stored.dim,
                       to + head * stored.headRows * stored.rowBytes);
}

} // namespace

void Engine::Impl::executeStoreKv(const StoreKvInstruction &store) {
  const KvSlot &slot = artifact->kvSlots[store.slot];
  Rows keys = buffer(store.key), values = buffer(store.value);
  const uint32_t keyDim = bufferInfo(store.key).width / slot.kvHeads,
                 valueDim = bufferInfo(store.value).width / slot.kvHeads;
  const bool inKeys = slot.valueDim == 0;
  for (uint32_t row = 0; row < rows(); ++row) {
    const Session::Impl &session = batch[row].session->internals();
    const Session::Impl::Slot &kv = session.slots[store.slot];
    const uint64_t capacity = session.capacity;
    uint32_t block = batch[row].position / kKvBlockTokens,
             place = batch[row].position % kKvBlockTokens;
    storeHeads(*kernels, slot.kind, keys.floats(row),
               {slot.kvHeads, keyDim, 0, slot.keyRowBytes(), capacity}, place, kv.keyBlocks[block]);
    storeHeads(*kernels, slot.kind, values.floats(row),
               {slot.kvHeads, valueDim, inKeys ? kvElementOffset(slot.kind, keyDim) : 0,
                inKeys ? slot.keyRowBytes() : slot.valueRowBytes(), capacity},
               place, kv.valueBlocks[block]);
  }
}

void Engine::Impl::executeAttend(const AttendInstruction &attend) {
  const KvSlot &slot = artifact->kvSlots[attend.slot];
  Rows query = buffer(attend.query), dst = buffer(attend.dst);
  uint64_t longest = 0;
  for (const BatchRow &row : batch)
    longest = std::max<uint64_t>(longest, row.position + 1);
  if (attend.window != 0)
    longest = std::min<uint64_t>(longest, attend.window);
  // Cut only where the kernel does: heads that it computes together stay with one thread.
  const uint32_t headsPerKey = attend.heads / slot.kvHeads;
  const uint64_t runsPerKey = divideUp(headsPerKey, kAttendHeads), runs = runsPerKey * slot.kvHeads;
  auto firstHead = [&](uint64_t run) {
    return static_cast<uint32_t>(run / runsPerKey * headsPerKey + run % runsPerKey * kAttendHeads);
  };
  const uint32_t valueDim = valueDimOf(slot, *program, attend);
  const float *sinks = vector(attend.sinks);
  const uint64_t operations = longest * (slot.keyDim + valueDim);
  const uint64_t grain = grainFor(operations * std::min(headsPerKey, kAttendHeads));
  threads->run(rows() * runs, grain, [&](uint64_t begin, uint64_t end, uint32_t t) {
    float *own = reinterpret_cast<float *>(scratch.data()) + t * attentionScratchFloats;
    while (begin < end) {
      const uint64_t row = begin / runs, run = begin % runs;
      const uint64_t runEnd = std::min(runs, run + (end - begin));
      const Session::Impl &session = batch[row].session->internals();
      const Session::Impl::Slot &kv = session.slots[attend.slot];
      KvView view = {
          kv.keyBlocks.data(), kv.valueBlocks.data(), slot.kvHeads, slot.keyDim, valueDim,
          session.capacity,    slot.valueDim == 0,    slot.kind};
      uint32_t last = batch[row].position + 1;
      uint32_t first = attend.chunked ? (last - 1) / attend.window * attend.window
                       : attend.window != 0 && last > attend.window ? last - attend.window
                                                                    : 0;
      kernels->attend(query.floats(row), view, attend.heads, firstHead(run), firstHead(runEnd),
                      first, last, attend.scale, sinks, dst.floats(row), own);
      begin += runEnd - run;
    }
  });
}

} // namespace moert
