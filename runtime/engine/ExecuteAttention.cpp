// Executes the instructions of attention: rotary embedding, storing keys and values, choosing keys,
// attending.
#include "runtime/engine/Executor.h"

#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

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

// The step's tables have the angles of the positions without the offset.
void Executor::execute(Step &step, const AddPositionInstruction &add) {
  constexpr uint32_t kAngles = 16;
  const Rope &rope = parts.artifact.ropes[add.rope];
  const auto count = static_cast<uint32_t>(rope.inverseFrequencies.size());
  const Rows x = step.buffer(add.buffer);
  alignas(64) std::array<float, kAngles> cosines, sines;
  for (uint32_t row = 0; row < step.rows(); ++row)
    for (uint32_t i = 0; i < count; i += kAngles) {
      const uint32_t some = std::min(kAngles, count - i);
      float *first = x.floats(row) + i, *second = first + count;
      parts.kernels.ropeTable(step.batch[row].position + add.offset,
                              rope.inverseFrequencies.data() + i, some, rope.attentionFactor,
                              cosines.data(), sines.data());
      for (uint32_t angle = 0; angle < some; ++angle) {
        first[angle] += sines[angle];
        second[angle] += cosines[angle];
      }
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

/// The keys [first, last) that a row attends to, of all positions or of the chosen ones.
struct AttendedKeys {
  const int32_t *chosen;
  uint32_t first, last;
};

KvView viewOf(const KvSlot &slot, uint32_t valueDim, const SequenceMemory &memory,
              uint32_t number) {
  const SequenceMemory::Slot &kv = memory.slots[number];
  return {kv.keyBlocks.data(), kv.valueBlocks.data(), slot.kvHeads, slot.keyDim, valueDim,
          memory.capacity,     slot.valueDim == 0,    slot.kind};
}

/// Stores a key in a row of a slot without values, of the rows of all its heads.
void storeKey(const KernelTable &kernels, const KvSlot &slot, const float *key,
              const SequenceMemory::Slot &memory, uint64_t row) {
  storeHeads(kernels, slot.kind, key, {1, slot.keyDim, 0, slot.keyRowBytes(), 0},
             row % kKvBlockTokens, memory.keyBlocks[row / kKvBlockTokens]);
}

bool endsPool(uint32_t position, uint32_t poolTokens) {
  return (position + 1) % poolTokens == 0;
}

/// Makes of the numbers of `count` pools, at the beginning of a list, the positions of their
/// tokens, and adds those after the last pool.
void listTokens(std::span<int32_t> list, uint32_t count, uint32_t position, uint32_t poolTokens) {
  const uint32_t keys = position + 1, rest = keys % poolTokens, own = count * poolTokens;
  for (uint32_t i = own; i-- > 0;)
    list[i] = static_cast<int32_t>(uint32_t(list[i / poolTokens]) * poolTokens + i % poolTokens);
  std::iota(list.begin() + own, list.begin() + own + rest, static_cast<int32_t>(keys - rest));
  std::fill(list.begin() + own + rest, list.end(), kNone);
}

/// Puts the last `window` positions before them, and makes them numbers of the second head's rows,
/// which follow the `capacity` rows of the first.
void listWindow(std::span<int32_t> list, uint32_t count, uint32_t position, uint32_t window,
                uint32_t capacity) {
  const uint32_t keys = position + 1, own = std::min(keys, window);
  for (uint32_t i = count; i-- > 0;)
    list[own + i] = list[i] + static_cast<int32_t>(capacity);
  std::iota(list.begin(), list.begin() + own, static_cast<int32_t>(keys - own));
  std::fill(list.begin() + own + count, list.end(), kNone);
}

/// Keys of the batch's longest sequence.
uint64_t longestOf(const Step &step) {
  uint64_t longest = 0;
  for (const BatchRow &row : step.batch)
    longest = std::max<uint64_t>(longest, row.position + 1);
  return longest;
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

template <class KeysOf>
void Executor::attendRows(const Step &step, const AttentionOperands &attend, const KvSlot &slot,
                          uint64_t longest, const float *sinks, const PositionBias *bias,
                          KeysOf keysOf) const {
  Rows query = step.buffer(attend.query), dst = step.buffer(attend.dst);
  // Cut only where the kernel does: heads that it computes together stay with one thread.
  const uint32_t headsPerKey = attend.heads / slot.kvHeads;
  const uint64_t runsPerKey = divideUp(headsPerKey, kAttendHeads), runs = runsPerKey * slot.kvHeads;
  auto firstHead = [&](uint64_t run) {
    return static_cast<uint32_t>(run / runsPerKey * headsPerKey + run % runsPerKey * kAttendHeads);
  };
  const uint32_t valueDim = valueDimOf(slot, *step.program, attend);
  const uint64_t operations = longest * (slot.keyDim + valueDim);
  const uint64_t grain = grainFor(operations * std::min(headsPerKey, kAttendHeads));
  parts.threads.run(step.rows() * runs, grain, [&](uint64_t begin, uint64_t end, uint32_t t) {
    float *own = step.attentionScratch(t);
    while (begin < end) {
      const uint64_t row = begin / runs, run = begin % runs;
      const uint64_t runEnd = bias ? run + 1 : std::min(runs, run + (end - begin));
      KvView view = viewOf(slot, valueDim, step.batch[row].session->memory, attend.slot);
      const AttendedKeys keys = keysOf(row);
      view.chosen = keys.chosen;
      if (bias) { // Biases of the run's heads lie after the kernel's memory.
        view.biases = own + step.kernelScratchFloats();
        view.biasStride = roundUp(keys.last, 16);
        for (uint32_t head = firstHead(run); head < firstHead(runEnd); ++head)
          for (uint32_t key = keys.first; key < keys.last; ++key)
            own[step.kernelScratchFloats() + (head - firstHead(run)) * view.biasStride + key -
                keys.first] =
                bias->table[bias->buckets.of(step.batch[row].position, key) * attend.heads + head];
      }
      parts.kernels.attend(query.floats(row), view, attend.heads, firstHead(run), firstHead(runEnd),
                           keys.first, keys.last, attend.scale, sinks, dst.floats(row), own);
      begin += runEnd - run;
    }
  });
}

void Executor::execute(Step &step, const AttendInstruction &attend) {
  uint64_t longest = longestOf(step);
  if (attend.window != 0)
    longest = std::min<uint64_t>(longest, attend.window);
  const float *sinks = parts.weights.vector(attend.sinks);
  const KvSlot &slot = parts.artifact.kvSlots[attend.slot];
  attendRows(step, attend, slot, longest, sinks, nullptr, [&](uint64_t row) {
    const uint32_t last = step.batch[row].position + 1;
    const uint32_t first = attend.chunked ? (last - 1) / attend.window * attend.window
                           : attend.window != 0 && last > attend.window ? last - attend.window
                                                                        : 0;
    return AttendedKeys{nullptr, first, last};
  });
}

void Executor::attendListed(const Step &step, const ListedAttention &attend, const KvSlot &slot,
                            uint32_t keysPerToken, const float *sinks) const {
  const uint32_t most = step.bufferInfo(attend.chosen).width;
  const Rows chosen = step.buffer(attend.chosen);
  const uint64_t longest = std::min<uint64_t>(keysPerToken * longestOf(step), most);
  attendRows(step, attend, slot, longest, sinks, nullptr, [&](uint64_t row) {
    // Another buffer than that of a choice may hold any numbers: the list ends at one beyond the
    // sequence's memory.
    const int32_t *first = chosen.integers(row);
    const uint64_t keys = uint64_t{keysPerToken} * step.batch[row].session->memory.capacity;
    const int32_t *end = std::find_if(first, first + most, [&](int32_t key) {
      return key < 0 || static_cast<uint64_t>(key) >= keys;
    });
    return AttendedKeys{first, 0, static_cast<uint32_t>(end - first)};
  });
}

void Executor::execute(Step &step, const AttendRangeInstruction &attend) {
  const auto lastOf = [&](const BatchRow &row) {
    const uint32_t input = row.session->memory.inputTokens;
    if (attend.range == AttendedRange::kInput)
      return input;
    return std::max(row.position + 1, attend.range == AttendedRange::kEarlier ? 0 : input);
  };
  uint64_t longest = 0;
  for (const BatchRow &row : step.batch)
    longest = std::max<uint64_t>(longest, lastOf(row));
  const PositionBias bias = {parts.weights.vector(attend.positionBias), positionBuckets};
  if (bias.table)
    positionBuckets.prepare(attend.buckets, attend.maxDistance,
                            attend.range != AttendedRange::kEarlier);
  attendRows(step, attend, parts.artifact.kvSlots[attend.slot], longest, nullptr,
             bias.table ? &bias : nullptr, [&](uint64_t row) {
               return AttendedKeys{nullptr, 0, lastOf(step.batch[row])};
             });
}

void Executor::execute(Step &step, const AttendChosenInstruction &attend) {
  attendListed(step, attend, parts.artifact.kvSlots[attend.slot], 1, nullptr);
}

void Executor::execute(Step &step, const AttendPoolsInstruction &attend) {
  KvSlot slot = parts.artifact.kvSlots[attend.slot];
  slot.kvHeads = 1; // The list has rows of both heads.
  attendListed(step, attend, slot, 2, vector(attend.sinks));
}

/// The numbers of the `best.size()` largest of `count` scores, ascending; of equal ones the lowest,
/// and NaN last. order: memory for `count` numbers.
static void chooseLargest(float *scores, uint32_t count, int32_t *order, std::span<int32_t> best) {
  std::replace_if(
      scores, scores + count, [](float score) { return score != score; },
      -std::numeric_limits<float>::infinity());
  std::iota(order, order + count, 0);
  std::nth_element(order, order + best.size(), order + count, [&](int32_t a, int32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  std::copy_n(order, best.size(), best.begin());
  std::sort(best.begin(), best.end());
}

template <class KeysOf, class Finish>
void Executor::chooseRows(const Step &step, const ChoiceOperands &choose, uint32_t most,
                          KeysOf keysOf, Finish finish) const {
  const KvSlot &slot = parts.artifact.kvSlots[choose.slot];
  const Rows query = step.buffer(choose.query), weights = step.buffer(choose.weights),
             dst = step.buffer(choose.dst);
  // The row's scores are at the beginning of a thread's scratch, the kernel's memory after them.
  const auto score = [&](uint64_t row, uint32_t begin, uint32_t end, float *scores, uint32_t t) {
    parts.kernels.scoreIndex(query.floats(row),
                             viewOf(slot, 0, step.batch[row].session->memory, choose.slot),
                             weights.floats(row), choose.heads, begin, end, scores + begin,
                             step.attentionScratch(t) + roundUp(keysOf(row), 16));
  };
  const auto chooseFrom = [&](uint64_t row, float *scores) {
    const uint32_t keys = keysOf(row);
    chooseLargest(scores, keys, reinterpret_cast<int32_t *>(scores + roundUp(keys, 16)),
                  {dst.integers(row), most});
    finish(row, most);
  };
  const uint64_t perKey = uint64_t(choose.heads) * slot.keyDim;
  if (step.rows() == 1 && keysOf(0) > most) {
    float *scores = step.attentionScratch(0);
    const uint32_t keys = keysOf(0);
    parts.threads.run(divideUp(keys, kKvBlockTokens), grainFor(perKey * kKvBlockTokens),
                      [&](uint64_t begin, uint64_t end, uint32_t t) {
                        const auto last = std::min<uint64_t>(end * kKvBlockTokens, keys);
                        score(0, static_cast<uint32_t>(begin * kKvBlockTokens),
                              static_cast<uint32_t>(last), scores, t);
                      });
    return chooseFrom(0, scores);
  }
  parts.threads.run(step.rows(), grainFor(perKey * longestOf(step)),
                    [&](uint64_t begin, uint64_t end, uint32_t t) {
                      for (uint64_t row = begin; row < end; ++row) {
                        const uint32_t keys = keysOf(row);
                        if (keys <= most) {
                          std::iota(dst.integers(row), dst.integers(row) + keys, 0);
                          finish(row, keys);
                          continue;
                        }
                        score(row, 0, keys, step.attentionScratch(t), t);
                        chooseFrom(row, step.attentionScratch(t));
                      }
                    });
}

void Executor::execute(Step &step, const ChooseKeysInstruction &choose) {
  const KvSlot &slot = parts.artifact.kvSlots[choose.slot];
  const Rows key = step.buffer(choose.key), dst = step.buffer(choose.dst);
  const uint32_t most = step.bufferInfo(choose.dst).width;
  for (uint32_t row = 0; row < step.rows(); ++row)
    storeKey(parts.kernels, slot, key.floats(row),
             step.batch[row].session->memory.slots[choose.slot], step.batch[row].position);
  chooseRows(
      step, choose, most, [&](uint64_t row) { return step.batch[row].position + 1; },
      [&](uint64_t row, uint32_t count) {
        std::fill(dst.integers(row) + count, dst.integers(row) + most, kNone);
      });
}

void Executor::execute(Step &step, const StoreKeyInstruction &store) {
  const KvSlot &slot = parts.artifact.kvSlots[store.slot];
  const Rows key = step.buffer(store.key);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const SequenceMemory &memory = step.batch[row].session->memory;
    uint64_t to = step.batch[row].position;
    if (store.poolTokens != 0) {
      if (!endsPool(step.batch[row].position, store.poolTokens))
        continue;
      to = to / store.poolTokens + uint64_t(slot.kvHeads - 1) * memory.capacity;
    }
    storeKey(parts.kernels, slot, key.floats(row), memory.slots[store.slot], to);
  }
}

void Executor::execute(Step &step, const ChoosePoolsInstruction &choose) {
  execute(step, StoreKeyInstruction{choose.key, choose.slot, choose.poolTokens});
  const uint32_t width = step.bufferInfo(choose.dst).width, pool = choose.poolTokens;
  const Rows dst = step.buffer(choose.dst);
  chooseRows(
      step, choose, choose.window == 0 ? (width + 1) / pool - 1 : width - choose.window,
      [&](uint64_t row) { return (step.batch[row].position + 1) / pool; },
      [&](uint64_t row, uint32_t count) {
        const BatchRow &of = step.batch[row];
        const std::span<int32_t> list(dst.integers(row), width);
        if (choose.window == 0)
          listTokens(list, count, of.position, pool);
        else
          listWindow(list, count, of.position, choose.window, of.session->memory.capacity);
      });
}

void Executor::execute(Step &step, const ListPoolsInstruction &all) {
  const Rows dst = step.buffer(all.dst);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    const BatchRow &of = step.batch[row];
    const std::span<int32_t> list(dst.integers(row), step.bufferInfo(all.dst).width);
    const auto most = static_cast<uint32_t>(list.size()) - all.window;
    const uint32_t count = std::min((of.position + 1) / all.poolTokens, most);
    std::iota(list.begin(), list.begin() + count, 0);
    listWindow(list, count, of.position, all.window, of.session->memory.capacity);
  }
}

void Executor::execute(Step &step, const RopePartInstruction &part) {
  const Rope &rope = parts.artifact.ropes[part.rope];
  const auto count = static_cast<uint32_t>(rope.inverseFrequencies.size());
  alignas(64) std::array<float, kMostPartPairs> cosines, sines;
  const Rows x = step.buffer(part.buffer);
  for (uint32_t row = 0; row < step.rows(); ++row) {
    // The key of a pool that has not ended is not stored.
    const uint32_t position = step.batch[row].position;
    if (!endsPool(position, part.poolTokens))
      continue;
    if (part.poolTokens > 1) {
      step.computeRope(parts.kernels, part.rope, position + 1 - part.poolTokens, cosines.data(),
                       sines.data());
    } else {
      const float *own = step.ropeTableOf(row, part.rope);
      std::copy_n(own, count, cosines.begin());
      std::copy_n(own + roundUp(count, 16), count, sines.begin());
    }
    if (part.inverse)
      std::transform(sines.begin(), sines.begin() + count, sines.begin(), std::negate<float>());
    parts.kernels.rope(x.floats(row) + part.first, part.heads, part.headDim, cosines.data(),
                       sines.data(), count, rope.style == RopeStyle::kInterleaved);
  }
}

} // namespace moert
