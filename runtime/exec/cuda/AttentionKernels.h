// Keys and values in a device's memory: storing them, and attention over them. They are those of
// SequenceMemory: of each slot, the keys of all positions of each head, then the values.
#pragma once

#include "runtime/exec/cuda/RowKernels.h"

namespace moert::device {

/// A slot, whose keys and values are apart.
struct Slot {
  KvKind kind;
  uint32_t kvHeads, keyDim, valueDim;
  uint64_t bytesBefore; // What a token takes in the slots before it.

  /// The rows of a head, by position.
  MOERT_DEVICE std::byte *keysOf(const TokenRow &row, uint32_t head) const {
    return row.memory + row.capacity * (bytesBefore + head * kvRowBytes(kind, keyDim));
  }
  MOERT_DEVICE std::byte *valuesOf(const TokenRow &row, uint32_t head) const {
    return row.memory + row.capacity * (bytesBefore + kvHeads * kvRowBytes(kind, keyDim) +
                                        head * kvRowBytes(kind, valueDim));
  }
};

/// KernelTable::storeKvRow for all heads of each row.
struct StoreKeysAndValues {
  using Shared = NothingShared;
  Slot slot;
  const TokenRow *tokens;
  const float *keys, *values;
  uint64_t keyStride, valueStride;
  uint32_t rows;

  uint32_t blocks() const { return rows; }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &) const {
    const TokenRow &row = tokens[threads.block];
    threads.forEach(2 * slot.kvHeads * partsOf(widest()), [&](uint32_t i) {
      const uint32_t head = i / 2 / partsOf(widest()), part = i / 2 % partsOf(widest());
      const uint32_t dim = i % 2 == 0 ? slot.keyDim : slot.valueDim;
      const float *const x =
          i % 2 == 0 ? keys + threads.block * keyStride : values + threads.block * valueStride;
      std::byte *const to = i % 2 == 0 ? slot.keysOf(row, head) : slot.valuesOf(row, head);
      if (part * kKvGroup < dim)
        store(x + head * dim, dim, part * kKvGroup, to + row.position * kvRowBytes(slot.kind, dim));
    });
  }

private:
  MOERT_DEVICE uint32_t widest() const {
    return slot.keyDim > slot.valueDim ? slot.keyDim : slot.valueDim;
  }
  MOERT_DEVICE static uint32_t partsOf(uint32_t dim) { return (dim + kKvGroup - 1) / kKvGroup; }

  /// Elements from `first` on that share a scale.
  MOERT_DEVICE void store(const float *x, uint32_t dim, uint32_t first, std::byte *row) const {
    const uint32_t end = dim - first < kKvGroup ? dim : first + kKvGroup;
    if (slot.kind == KvKind::kInt8)
      return storeCodes(x, dim, first, end, row);
    for (uint32_t i = first; i < end; ++i)
      if (slot.kind == KvKind::kF32) {
        reinterpret_cast<float *>(row)[i] = x[i];
      } else {
        const float value = x[i] > kMaxKvF16 ? kMaxKvF16 : x[i];
        reinterpret_cast<uint16_t *>(row)[i] = f32ToF16(value < -kMaxKvF16 ? -kMaxKvF16 : value);
      }
  }

  /// A row of codes has any length, so that its scales need not be aligned.
  MOERT_DEVICE static void storeCodes(const float *x, uint32_t dim, uint32_t first, uint32_t end,
                                      std::byte *row) {
    int8_t codes[kKvGroup];
    float scale;
    int32_t sum;
    const QuantizeRows quantize = {
        x + first, 0, 1, end - first, {codes, &scale, &sum, kKvGroup, kKvGroup, 0, 0}, 1};
    quantize.quantize(0, 0);
    for (uint32_t i = first; i < end; ++i)
      row[i] = static_cast<std::byte>(codes[i - first]);
    const auto bits = std::bit_cast<uint32_t>(scale);
    for (uint32_t i = 0; i < 4; ++i)
      row[dim + first / kKvGroup * 4 + i] = static_cast<std::byte>(bits >> 8 * i);
  }
};

/// KernelTable::attend for all heads of each row, over the positions up to its own, of which
/// `window` limits those before it. A block takes one head of one row after the other.
struct AttendRows {
  static constexpr uint32_t kMaxima = 64;
  struct Shared {
    float maxima[kMaxima];
    float largest, total;
  };
  Slot slot;
  const TokenRow *tokens;
  const float *query;
  uint64_t queryStride;
  uint32_t rows, heads, window;
  bool isChunked; // The window is a chunk.
  float scale;
  const float *sinks; // Null: none.
  float *dst;
  uint64_t dstStride;
  float *scratch; // scratchFloats() of the longest sequence for each block.
  uint64_t scratchStride;
  uint32_t mostBlocks;

  /// What a block needs for so many keys: their scores and, of each sum block, the partial sums of
  /// the probabilities and the sums of the values.
  static constexpr uint64_t scratchFloats(uint32_t keys, uint32_t valueDim) {
    return keys + (uint64_t(keys) / kSumBlock + 2) * (16 + valueDim);
  }
  uint32_t blocks() const { return rows * heads < mostBlocks ? rows * heads : mostBlocks; }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &shared) const {
    const uint32_t all = rows * heads, step = all < mostBlocks ? all : mostBlocks;
    for (uint32_t i = threads.block; i < all; i += step)
      attend(threads, shared, i / heads, i % heads);
  }

private:
  MOERT_DEVICE uint32_t beginOf(uint32_t position) const {
    if (isChunked)
      return position / window * window;
    return window != 0 && position + 1 > window ? position + 1 - window : 0;
  }

  template <typename Threads>
  MOERT_DEVICE void attend(const Threads &threads, Shared &shared, uint32_t row,
                           uint32_t head) const {
    const TokenRow &token = tokens[row];
    const uint32_t begin = beginOf(token.position), keys = token.position + 1 - begin;
    const uint32_t firstBlock = begin / kSumBlock,
                   blocks = token.position / kSumBlock + 1 - firstBlock;
    const uint32_t kvHead = head / (heads / slot.kvHeads);
    const std::byte *const keyRows = slot.keysOf(token, kvHead);
    const std::byte *const valueRows = slot.valuesOf(token, kvHead);
    float *const scores = scratch + threads.block * scratchStride;
    float *const lanes = scores + keys, *const sums = lanes + blocks * 16;

    const float *const own = query + row * queryStride + uint64_t(head) * slot.keyDim;
    const uint64_t keyBytes = kvRowBytes(slot.kind, slot.keyDim);
    threads.forEach(
        keys, [&](uint32_t j) { scores[j] = dot(own, keyRows + (begin + j) * keyBytes) * scale; });
    // The maximum is exact in any order.
    threads.forEach(kMaxima, [&](uint32_t lane) {
      float largest = -std::numeric_limits<float>::infinity();
      for (uint32_t j = lane; j < keys; j += kMaxima)
        largest = scores[j] > largest ? scores[j] : largest;
      shared.maxima[lane] = largest;
    });
    threads.forEach(1, [&](uint32_t) {
      float largest = sinks && sinks[head] > shared.maxima[0] ? sinks[head] : shared.maxima[0];
      for (uint32_t lane = 1; lane < kMaxima; ++lane)
        largest = shared.maxima[lane] > largest ? shared.maxima[lane] : largest;
      shared.largest = largest;
    });
    threads.forEach(keys,
                    [&](uint32_t j) { scores[j] = exponentialOf(scores[j] - shared.largest); });
    const auto keysOf = [&](uint32_t block, auto function) {
      const uint32_t from = (firstBlock + block) * kSumBlock, to = from + kSumBlock;
      const uint32_t last = token.position + 1 < to ? token.position + 1 : to;
      for (uint32_t j = from < begin ? begin : from; j < last; ++j)
        function(j, scores[j - begin]);
    };
    threads.forEach(blocks * 16, [&](uint32_t i) {
      float sum = 0;
      keysOf(i / 16, [&](uint32_t j, float p) { sum = j % 16 == i % 16 ? sum + p : sum; });
      lanes[i] = sum;
    });
    const uint32_t dim = slot.valueDim;
    const uint64_t valueBytes = kvRowBytes(slot.kind, dim);
    threads.forEach(blocks * dim, [&](uint32_t i) {
      float sum = 0;
      keysOf(i / dim, [&](uint32_t j, float p) {
        sum = std::fma(p, stored(valueRows + j * valueBytes, dim, i % dim), sum);
      });
      sums[i] = sum;
    });
    threads.forEach(1, [&](uint32_t) {
      float total = 0;
      for (uint32_t block = 0; block < blocks; ++block)
        total = total + treeOf(lanes + block * 16);
      shared.total = sinks ? total + exponentialOf(sinks[head] - shared.largest) : total;
    });
    threads.forEach(dim, [&](uint32_t d) {
      float sum = 0;
      for (uint32_t block = 0; block < blocks; ++block)
        sum = sum + sums[block * dim + d];
      dst[row * dstStride + uint64_t(head) * dim + d] = sum / shared.total;
    });
  }

  /// Element `i` of a stored row of `dim`.
  MOERT_DEVICE float stored(const std::byte *row, uint32_t dim, uint32_t i) const {
    if (slot.kind == KvKind::kF32)
      return reinterpret_cast<const float *>(row)[i];
    if (slot.kind == KvKind::kF16)
      return f16ToF32(reinterpret_cast<const uint16_t *>(row)[i]);
    uint32_t bits = 0;
    for (uint32_t byte = 0; byte < 4; ++byte)
      bits |= static_cast<uint32_t>(row[dim + i / kKvGroup * 4 + byte]) << 8 * byte;
    return std::bit_cast<float>(bits) * static_cast<float>(static_cast<int8_t>(row[i]));
  }

  MOERT_DEVICE float dot(const float *a, const std::byte *b) const {
    float sums[16] = {};
    for (uint32_t first = 0; first < slot.keyDim; first += 16)
      for (uint32_t lane = 0; lane < 16 && first + lane < slot.keyDim; ++lane)
        sums[lane] = std::fma(a[first + lane], stored(b, slot.keyDim, first + lane), sums[lane]);
    return treeOf(sums);
  }
};

} // namespace moert::device
