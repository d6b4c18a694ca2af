// Attention of one token in lanes: scores along the head dimension, values across it. Query heads
// that share a key head are computed together, so that their keys and values are loaded once.
// Included after Elementwise.h.
#pragma once

#include "runtime/exec/Kernels.h"

namespace moert {
namespace {

/// Rows of one key head: the row of position p = block[p / kKvBlockTokens] + headOffset + (p %
/// kKvBlockTokens) * step, in bytes. Key j is that of position j, or of chosen[j].
struct HeadRows {
  const std::byte *const *blocks;
  uint64_t headOffset;
  uint64_t step;
  const int32_t *chosen;

  /// The end of the run of keys from j on whose rows follow each other, `end` at most.
  uint32_t endOfRun(uint32_t j, uint32_t end) const {
    const uint32_t position = chosen ? uint32_t(chosen[j]) : j;
    const uint32_t left = kKvBlockTokens - position % kKvBlockTokens;
    const uint32_t most = left < end - j ? j + left : end;
    if (!chosen)
      return most;
    uint32_t next = j + 1;
    while (next < most && chosen[next] == chosen[next - 1] + 1)
      ++next;
    return next;
  }
  const std::byte *at(uint32_t j) const {
    const uint32_t position = chosen ? uint32_t(chosen[j]) : j;
    return blocks[position / kKvBlockTokens] + headOffset + (position % kKvBlockTokens) * step;
  }
};

inline const float *asFloats(const std::byte *row) {
  return reinterpret_cast<const float *>(row);
}

/// The scales of a row of int8.
inline float scaleOf(const std::byte *row, uint32_t elements, uint32_t i) {
  float scale;
  __builtin_memcpy(&scale, row + elements + i / kKvGroup * sizeof(float), sizeof scale);
  return scale;
}

/// `count` of a row's elements from element i on, a multiple of 16 in int8, as f32; other lanes are
/// not defined. Reads no other elements.
template <KvKind kKind>
inline Lanes loadRow(const std::byte *row, uint32_t elements, uint32_t i, uint32_t count) {
  if constexpr (kKind == KvKind::kF32) {
    return loadUpTo(asFloats(row) + i, count);
  } else {
    constexpr uint32_t kBytes = kKind == KvKind::kF16 ? 2 : 1;
    const std::byte *from = row + uint64_t(i) * kBytes;
    std::byte padded[kLanes * kBytes] = {};
    if (count < kLanes) {
      __builtin_memcpy(padded, from, count * kBytes);
      from = padded;
    }
    if constexpr (kKind == KvKind::kF16)
      return loadF16(from);
    else
      return multiply(splat(scaleOf(row, elements, i)), loadI8(from));
  }
}

inline void storeInt8Row(const float *x, uint32_t elements, std::byte *row) {
  std::byte *scales = row + elements;
  for (uint32_t i = 0; i < elements; i += kKvGroup, scales += sizeof(float)) {
    const uint32_t count = elements - i < kKvGroup ? elements - i : kKvGroup;
    int8_t codes[kKvGroup];
    float scale;
    int32_t sum;
    quantizeGroup(x + i, count, kKvGroup, codes, &scale, &sum);
    __builtin_memcpy(row + i, codes, count);
    __builtin_memcpy(scales, &scale, sizeof scale);
  }
}

void storeKvRow(KvKind kind, const float *x, uint32_t elements, std::byte *row) {
  if (kind == KvKind::kF32) {
    __builtin_memcpy(row, x, elements * sizeof(float));
    return;
  }
  if (kind == KvKind::kInt8)
    return storeInt8Row(x, elements, row);
  const Lanes high = splat(kMaxKvF16), low = splat(-kMaxKvF16);
  forLanes(elements, [&](uint64_t i, uint32_t count) {
    const Lanes clamped = clampTo(low, high, loadUpTo(x + i, count));
    std::byte *to = row + i * sizeof(uint16_t);
    if (count == kLanes)
      return storeF16(to, clamped);
    std::byte padded[kLanes * sizeof(uint16_t)];
    storeF16(padded, clamped);
    __builtin_memcpy(to, padded, count * sizeof(uint16_t));
  });
}

/// Positions [begin, end), and for each head of a group a row of scores, later probabilities.
struct Scores {
  uint32_t begin, end;
  float *first;

  float *of(uint32_t head) const {
    return first + head * ((uint64_t(end - begin) + kLanes - 1) / kLanes * kLanes);
  }
};

/// dots[k] = q . (key + k * step), for kKeys keys.
template <int kKeys>
inline void dotKeys(const float *query, const float *key, uint64_t step, uint32_t dim,
                    float *dots) {
  Lanes sums[kKeys];
  for (int k = 0; k < kKeys; ++k)
    sums[k] = zeroLanes();
  uint32_t i = 0;
  for (; i + kLanes <= dim; i += kLanes) {
    Lanes q = load(query + i);
    for (int k = 0; k < kKeys; ++k)
      sums[k] = fma(q, load(key + k * step + i), sums[k]);
  }
  if (i < dim) {
    Lanes q = loadFirst(query + i, dim - i);
    for (int k = 0; k < kKeys; ++k)
      sums[k] = fmaFirst(q, loadFirst(key + k * step + i, dim - i), sums[k], dim - i);
  }
  if constexpr (kKeys == 4)
    treeSums4(sums, dots);
  else
    dots[0] = treeSum(sums[0]);
}

/// Keys as f32 in rows of roundUp(keyDim, 16) floats.
template <KvKind kKind>
inline void widenKeys(const std::byte *keys, uint64_t step, uint32_t count, uint32_t keyDim,
                      float *to) {
  for (uint32_t k = 0; k < count; ++k, keys += step)
    for (uint32_t i = 0; i < keyDim; i += kLanes, to += kLanes)
      store(to, loadRow<kKind>(keys, keyDim, i, keyDim - i < kLanes ? keyDim - i : kLanes));
}

/// q . k of a group's heads, each with all keys of a block while these are in the L1 cache. Narrow
/// keys are widened once for all heads.
template <KvKind kKind>
inline void scoreKeys(const float *query, uint32_t heads, const HeadRows &keys, uint32_t keyDim,
                      const Scores &scores, float *widened) {
  for (uint32_t j = scores.begin; j < scores.end;) {
    uint32_t blockEnd = keys.endOfRun(j, scores.end);
    const float *block = asFloats(keys.at(j));
    uint64_t step = keyDim;
    if constexpr (kKind != KvKind::kF32) {
      blockEnd = blockEnd - j < kWidenedKeys ? blockEnd : j + kWidenedKeys;
      widenKeys<kKind>(keys.at(j), keys.step, blockEnd - j, keyDim, widened);
      block = widened;
      step = (keyDim + kLanes - 1) / kLanes * kLanes;
    }
    for (uint32_t head = 0; head < heads; ++head) {
      const float *q = query + uint64_t(head) * keyDim, *key = block;
      float *dots = scores.of(head) + (j - scores.begin), *end = dots + (blockEnd - j);
      for (; dots + 4 <= end; dots += 4, key += 4 * step)
        dotKeys<4>(q, key, step, keyDim, dots);
      for (; dots < end; ++dots, key += step)
        dotKeys<1>(q, key, step, keyDim, dots);
    }
    j = blockEnd;
  }
}

/// Replaces each score, the dot product times `scale` plus its bias if there are any, by e^(score -
/// largest score). Returns the same for the sink, which is a score too; 0 without one.
inline float exponentials(float *scores, uint32_t count, float scale, const float *sink,
                          const float *biases) {
  Lanes factor = splat(scale);
  forLanes(count, [&](uint64_t i, uint32_t n) {
    storeUpTo(scores + i, multiply(loadUpTo(scores + i, n), factor), n);
  });
  for (uint32_t i = 0; biases && i < count; ++i)
    scores[i] = scores[i] + biases[i];
  float most = largestOf(scores, count);
  most = sink && *sink > most ? *sink : most;
  Lanes largest = splat(most);
  forLanes(count, [&](uint64_t i, uint32_t n) {
    storeUpTo(scores + i, exponential(subtract(loadUpTo(scores + i, n), largest)), n);
  });
  return sink ? moert::exponential(*sink - most) : 0;
}

/// The end of the sum block that contains position j, `end` at most.
inline uint32_t endOfSumBlock(uint32_t j, uint32_t end) {
  uint32_t left = kSumBlock - j % kSumBlock;
  return left < end - j ? j + left : end;
}

/// The sum of p over one block: position j in lane j mod 16, for any first position.
inline float sumOfBlock(const float *p, uint32_t begin, uint32_t end) {
  float first[kLanes] = {};
  uint32_t j = begin;
  for (; j < end && j % kLanes != 0; ++j)
    first[j % kLanes] = *p++;
  Lanes sums = load(first); // Nothing is negative, so adding 0 changes no lane.
  forLanes(end - j, [&](uint64_t i, uint32_t count) { sums = add(sums, loadUpTo(p + i, count)); });
  return treeSum(sums);
}

/// out[h * outStep + 0 .. 16 * kVectors) += the sum of p * value over positions [begin, end) of one
/// sum block, for the elements from `first` on of rows of `elements`. `count` is the number of real
/// lanes if kVectors is 1. The `rest` elements after these are prefetched, so that memory is read
/// sequentially.
template <KvKind kKind, int kHeads, int kVectors>
void addValues(const Scores &p, const HeadRows &values, uint32_t elements, uint32_t first,
               uint32_t begin, uint32_t end, uint32_t count, uint32_t rest, float *out,
               uint64_t outStep) {
  Lanes sums[kHeads][kVectors];
  const float *weights[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    weights[h] = p.of(h);
    for (Lanes &sum : sums[h])
      sum = zeroLanes();
  }
  for (uint32_t j = begin; j < end;) {
    const uint32_t runEnd = values.endOfRun(j, end);
    const std::byte *value = values.at(j);
    for (; j < runEnd; ++j, value += values.step) {
      for (uint32_t i = 0; i < rest; i += kLanes)
        __builtin_prefetch(value + kvElementOffset(kKind, first + kVectors * kLanes + i));
      for (int v = 0; v < kVectors; ++v) {
        Lanes of =
            loadRow<kKind>(value, elements, first + v * kLanes, kVectors == 1 ? count : kLanes);
        for (int h = 0; h < kHeads; ++h)
          sums[h][v] = fma(splat(weights[h][j - p.begin]), of, sums[h][v]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h)
    for (int v = 0; v < kVectors; ++v) {
      float *to = out + h * outStep + v * kLanes;
      storeUpTo(to, add(loadUpTo(to, count), sums[h][v]), count);
    }
}

/// The same for values that begin at the element `first` of their rows.
template <KvKind kKind, int kHeads>
void addRows(const Scores &p, const HeadRows &values, uint32_t first, uint32_t begin, uint32_t end,
             uint32_t valueDim, float *out) {
  const uint32_t elements = first + valueDim;
  uint32_t d = 0;
  auto addNext = [&]<int kVectors>() {
    if constexpr (kHeads * kVectors <= kValueSums)
      for (; d + kVectors * kLanes <= valueDim; d += kVectors * kLanes) {
        const uint32_t rest = d == 0 ? valueDim - kVectors * kLanes : 0;
        addValues<kKind, kHeads, kVectors>(p, values, elements, first + d, begin, end, kLanes, rest,
                                           out + d, valueDim);
      }
  };
  addNext.template operator()<8>();
  addNext.template operator()<4>();
  addNext.template operator()<2>();
  addNext.template operator()<1>();
  if (d < valueDim)
    addValues<kKind, kHeads, 1>(p, values, elements, first + d, begin, end, valueDim - d, 0,
                                out + d, valueDim);
}

template <KvKind kKind>
constexpr decltype(&addRows<kKind, 1>) kAddRows[kAttendHeads] = {
    addRows<kKind, 1>, addRows<kKind, 2>, addRows<kKind, 3>, addRows<kKind, 4>};

/// A group: up to kAttendHeads heads that share a key head, from firstHead on of those computed.
template <KvKind kKind>
void attendGroup(const float *query, const KvView &kv, uint32_t kvHead, uint32_t heads,
                 const Scores &scores, float scale, const float *sinks, uint32_t firstHead,
                 float *out) {
  const uint64_t firstRow = kvHead * kv.headRows;
  scoreKeys<kKind>(query, heads, {kv.keyBlocks, firstRow * kv.keyStep(), kv.keyStep(), kv.chosen},
                   kv.keyDim, scores, scores.of(heads));
  float sinkPowers[kAttendHeads] = {};
  for (uint32_t h = 0; h < heads; ++h)
    sinkPowers[h] = exponentials(scores.of(h), scores.end - scores.begin, scale,
                                 sinks ? sinks + h : nullptr, kv.biasesOf(firstHead + h));

  const HeadRows values = {kv.valueRows(), firstRow * kv.valueStep(), kv.valueStep(), kv.chosen};
  float sums[kAttendHeads] = {};
  forLanes(uint64_t(heads) * kv.valueDim,
           [&](uint64_t i, uint32_t count) { storeUpTo(out + i, zeroLanes(), count); });
  for (uint32_t j = scores.begin; j < scores.end;) {
    const uint32_t blockEnd = endOfSumBlock(j, scores.end);
    for (uint32_t h = 0; h < heads; ++h)
      sums[h] = sums[h] + sumOfBlock(scores.of(h) + (j - scores.begin), j, blockEnd);
    kAddRows<kKind>[heads - 1](scores, values, kv.firstValue(), j, blockEnd, kv.valueDim, out);
    j = blockEnd;
  }
  for (uint32_t h = 0; sinks && h < heads; ++h)
    sums[h] = sums[h] + sinkPowers[h];
  for (uint32_t h = 0; h < heads; ++h, out += kv.valueDim)
    forLanes(kv.valueDim, [&](uint64_t i, uint32_t count) {
      storeUpTo(out + i, divide(loadUpTo(out + i, count), splat(sums[h])), count);
    });
}

/// By KvKind.
constexpr decltype(&attendGroup<KvKind::kF32>) kAttendGroup[] = {
    attendGroup<KvKind::kF32>, attendGroup<KvKind::kF16>, attendGroup<KvKind::kInt8>};

void attend(const float *query, const KvView &kv, uint32_t heads, uint32_t headBegin,
            uint32_t headEnd, uint32_t begin, uint32_t end, float scale, const float *sinks,
            float *out, float *scratch) {
  const uint32_t headsPerKey = heads / kv.kvHeads;
  for (uint32_t head = headBegin; head < headEnd;) {
    const uint32_t kvHead = head / headsPerKey;
    uint32_t count = (kvHead + 1) * headsPerKey - head;
    count = count < headEnd - head ? count : headEnd - head;
    count = count < kAttendHeads ? count : kAttendHeads;
    kAttendGroup[int(kv.kind)](query + uint64_t(head) * kv.keyDim, kv, kvHead, count,
                               {begin, end, scratch}, scale, sinks ? sinks + head : nullptr,
                               head - headBegin, out + uint64_t(head) * kv.valueDim);
    head += count;
  }
}

template <KvKind kKind>
void scoreIndexOf(const float *query, const KvView &kv, const float *weights, uint32_t heads,
                  const Scores &scores, float *out) {
  const uint32_t count = scores.end - scores.begin;
  forLanes(count, [&](uint64_t i, uint32_t n) { storeUpTo(out + i, zeroLanes(), n); });
  for (uint32_t head = 0; head < heads;) {
    const uint32_t group = heads - head < kAttendHeads - 1 ? heads - head : kAttendHeads - 1;
    scoreKeys<kKind>(query + uint64_t(head) * kv.keyDim, group,
                     {kv.keyBlocks, 0, kv.keyStep(), kv.chosen}, kv.keyDim, scores,
                     scores.of(group));
    for (uint32_t h = 0; h < group; ++h, ++head)
      forLanes(count, [&](uint64_t i, uint32_t n) {
        const Lanes score = larger(loadUpTo(scores.of(h) + i, n), zeroLanes());
        storeUpTo(out + i, fma(splat(weights[head]), score, loadUpTo(out + i, n)), n);
      });
  }
}

/// By KvKind.
constexpr decltype(&scoreIndexOf<KvKind::kF32>) kScoreIndex[] = {
    scoreIndexOf<KvKind::kF32>, scoreIndexOf<KvKind::kF16>, scoreIndexOf<KvKind::kInt8>};

void scoreIndex(const float *query, const KvView &kv, const float *weights, uint32_t heads,
                uint32_t begin, uint32_t end, float *out, float *scratch) {
  kScoreIndex[int(kv.kind)](query, kv, weights, heads, {begin, end, scratch}, out);
}

} // namespace
} // namespace moert
