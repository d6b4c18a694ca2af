// Executes the instructions of attention: rotary embedding, storing keys and values, attending.
#include "runtime/engine/Executor.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>

namespace moert {

void Executor::execute(Step &step, const RopeInstruction &instruction) {
  const Rope &rope = parts.artifact.ropes[instruction.rope];
  uint32_t count = static_cast<uint32_t>(rope.inverseFrequencies.size());
  Rows x = step.buffer(instruction.buffer);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const float *cosines = step.ropeTableOf(row, instruction.rope);
    parts.kernels.rope(x.floats(row), instruction.heads, instruction.headDim, cosines,
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

void Executor::execute(Step &step, const StoreKvInstruction &store) {
  const KvSlot &slot = parts.artifact.kvSlots[store.slot];
  Rows keys = step.buffer(store.key), values = step.buffer(store.value);
  const uint32_t keyDim = step.bufferInfo(store.key).width / slot.kvHeads,
                 valueDim = step.bufferInfo(store.value).width / slot.kvHeads;
  const bool inKeys = slot.valueDim == 0;
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const SequenceMemory &session = step.batch[row].session->memory;
    const SequenceMemory::Slot &kv = session.slots[store.slot];
    const uint64_t capacity = session.capacity;
    uint32_t block = step.batch[row].position / kKvBlockTokens,
             place = step.batch[row].position % kKvBlockTokens;
    storeHeads(parts.kernels, slot.kind, keys.floats(row),
               {slot.kvHeads, keyDim, 0, slot.keyRowBytes(), capacity}, place, kv.keyBlocks[block]);
    storeHeads(parts.kernels, slot.kind, values.floats(row),
               {slot.kvHeads, valueDim, inKeys ? kvElementOffset(slot.kind, keyDim) : 0,
                inKeys ? slot.keyRowBytes() : slot.valueRowBytes(), capacity},
               place, kv.valueBlocks[block]);
  }
}

void Executor::execute(Step &step, const AttendInstruction &attend) {
  const KvSlot &slot = parts.artifact.kvSlots[attend.slot];
  Rows query = step.buffer(attend.query), dst = step.buffer(attend.dst);
  uint64_t longest = 0;
  for (const BatchRow &row : step.batch)
    longest = std::max<uint64_t>(longest, row.position + 1);
  if (attend.window != 0)
    longest = std::min<uint64_t>(longest, attend.window);
  // Cut only where the kernel does: heads that it computes together stay with one thread.
  const uint32_t headsPerKey = attend.heads / slot.kvHeads;
  const uint64_t runsPerKey = divideUp(headsPerKey, kAttendHeads), runs = runsPerKey * slot.kvHeads;
  auto firstHead = [&](uint64_t run) {
    return static_cast<uint32_t>(run / runsPerKey * headsPerKey + run % runsPerKey * kAttendHeads);
  };
  const uint32_t valueDim = valueDimOf(slot, *step.program, attend);
  const float *sinks = parts.weights.vector(attend.sinks);
  const uint64_t operations = longest * (slot.keyDim + valueDim);
  const uint64_t grain = grainFor(operations * std::min(headsPerKey, kAttendHeads));
  parts.threads.run(step.rows() * runs, grain, [&](uint64_t begin, uint64_t end, uint32_t t) {
    float *own = step.attentionScratch(t);
    while (begin < end) {
      const uint64_t row = begin / runs, run = begin % runs;
      const uint64_t runEnd = std::min(runs, run + (end - begin));
      const SequenceMemory &session = step.batch[row].session->memory;
      const SequenceMemory::Slot &kv = session.slots[attend.slot];
      KvView view = {
          kv.keyBlocks.data(), kv.valueBlocks.data(), slot.kvHeads, slot.keyDim, valueDim,
          session.capacity,    slot.valueDim == 0,    slot.kind};
      uint32_t last = step.batch[row].position + 1;
      uint32_t first = attend.chunked ? (last - 1) / attend.window * attend.window
                       : attend.window != 0 && last > attend.window ? last - attend.window
                                                                    : 0;
      parts.kernels.attend(query.floats(row), view, attend.heads, firstHead(run), firstHead(runEnd),
                           first, last, attend.scale, sinks, dst.floats(row), own);
      begin += runEnd - run;
    }
  });
}

} // namespace moert
