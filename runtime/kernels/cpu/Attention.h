// Attention of one token in lanes: scores along the head dimension, values across it. Included
// behind Elementwise.h.
#pragma once

#include "runtime/kernels/Kernels.h"

namespace moert {
namespace {

/// Rows of one key head: row of position j = block[j / kKvBlockTokens] + headOffset + (j %
/// kKvBlockTokens) * step.
struct HeadRows {
  const float *const *blocks;
  uint64_t headOffset;
  uint64_t step;

  const float *at(uint32_t position) const {
    return blocks[position / kKvBlockTokens] + headOffset + (position % kKvBlockTokens) * step;
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

/// The end of the run of positions from j on that share a block of the cache, `end` at most.
inline uint32_t endOfKvBlock(uint32_t j, uint32_t end) {
  uint32_t left = kKvBlockTokens - j % kKvBlockTokens;
  return left < end - j ? j + left : end;
}

/// probabilities[j - begin] = e^(score - largest score).
inline void scoreKeys(const float *query, const HeadRows &keys, uint32_t keyDim, uint32_t begin,
                      uint32_t end, float scale, float *probabilities) {
  for (uint32_t j = begin; j < end;) {
    uint32_t blockEnd = endOfKvBlock(j, end);
    const float *key = keys.at(j);
    for (; j + 4 <= blockEnd; j += 4, key += 4 * keys.step)
      dotKeys<4>(query, key, keys.step, keyDim, probabilities + (j - begin));
    for (; j < blockEnd; ++j, key += keys.step)
      dotKeys<1>(query, key, keys.step, keyDim, probabilities + (j - begin));
  }
  Lanes factor = splat(scale);
  forLanes(end - begin, [&](uint64_t i, uint32_t count) {
    storeUpTo(probabilities + i, multiply(loadUpTo(probabilities + i, count), factor), count);
  });
  Lanes largest = splat(largestOf(probabilities, end - begin));
  forLanes(end - begin, [&](uint64_t i, uint32_t count) {
    Lanes scores = loadUpTo(probabilities + i, count);
    storeUpTo(probabilities + i, exponential(subtract(scores, largest)), count);
  });
}

/// The end of the block of sums that position j is in, `end` at most.
inline uint32_t endOfSumBlock(uint32_t j, uint32_t end) {
  uint32_t left = kSumBlock - j % kSumBlock;
  return left < end - j ? j + left : end;
}

/// The sum of p over one block: lane j mod 16, whatever the first position is.
inline float sumOfBlock(const float *p, uint32_t begin, uint32_t end) {
  float first[kLanes] = {};
  uint32_t j = begin;
  for (; j < end && j % kLanes != 0; ++j)
    first[j % kLanes] = *p++;
  Lanes sums = load(first); // Nothing is negative, so that adding 0 changes no lane.
  forLanes(end - j, [&](uint64_t i, uint32_t count) { sums = add(sums, loadUpTo(p + i, count)); });
  return treeSum(sums);
}

/// out[0 .. 16 * kVectors) = sum over j of p[j - begin] * value(j), in blocks, over `sum`. `count`
/// is how many lanes of the last vector are real.
template <int kVectors>
inline void sumValues(const float *p, const HeadRows &values, uint32_t begin, uint32_t end,
                      float sum, uint32_t count, float *out) {
  Lanes totals[kVectors];
  for (int v = 0; v < kVectors; ++v)
    totals[v] = zeroLanes();
  for (uint32_t j = begin; j < end;) {
    uint32_t blockEnd = endOfSumBlock(j, end);
    Lanes block[kVectors];
    for (int v = 0; v < kVectors; ++v)
      block[v] = zeroLanes();
    while (j < blockEnd) {
      uint32_t runEnd = endOfKvBlock(j, blockEnd);
      const float *value = values.at(j);
      for (; j < runEnd; ++j, value += values.step) {
        Lanes weight = splat(p[j - begin]);
        for (int v = 0; v + 1 < kVectors; ++v)
          block[v] = fma(weight, load(value + v * kLanes), block[v]);
        constexpr int kLast = kVectors - 1;
        block[kLast] = fma(weight, loadUpTo(value + kLast * kLanes, count), block[kLast]);
      }
    }
    for (int v = 0; v < kVectors; ++v)
      totals[v] = add(totals[v], block[v]);
  }
  for (int v = 0; v < kVectors; ++v)
    storeUpTo(out + v * kLanes, divide(totals[v], splat(sum)), v + 1 < kVectors ? kLanes : count);
}

void attendHead(const float *query, const KvView &kv, uint32_t kvHead, uint32_t begin, uint32_t end,
                float scale, float *out, float *p) {
  const uint64_t firstRow = uint64_t(kvHead) * kKvBlockTokens;
  HeadRows keys = {kv.keyBlocks, firstRow * kv.keyDim, kv.keyDim};
  scoreKeys(query, keys, kv.keyDim, begin, end, scale, p);
  float sum = 0;
  for (uint32_t j = begin; j < end;) {
    uint32_t blockEnd = endOfSumBlock(j, end);
    sum = sum + sumOfBlock(p + (j - begin), j, blockEnd);
    j = blockEnd;
  }
  HeadRows values = {kv.valueBlocks, firstRow * kv.valueDim, kv.valueDim};
  uint32_t d = 0;
  auto sumNext = [&]<int kVectors>() {
    for (; d + kVectors * kLanes <= kv.valueDim; d += kVectors * kLanes) {
      sumValues<kVectors>(p, values, begin, end, sum, kLanes, out + d);
      values.headOffset += kVectors * kLanes;
    }
  };
  sumNext.template operator()<kValueVectors>();
  if constexpr (kValueVectors > 4)
    sumNext.template operator()<4>();
  sumNext.template operator()<2>();
  sumNext.template operator()<1>();
  if (d < kv.valueDim)
    sumValues<1>(p, values, begin, end, sum, kv.valueDim - d, out + d);
}

void attend(const float *query, const KvView &kv, uint32_t heads, uint32_t headBegin,
            uint32_t headEnd, uint32_t begin, uint32_t end, float scale, float *out,
            float *scratch) {
  uint32_t headsPerKey = heads / kv.kvHeads;
  for (uint32_t head = headBegin; head < headEnd; ++head)
    attendHead(query + uint64_t(head) * kv.keyDim, kv, head / headsPerKey, begin, end, scale,
               out + uint64_t(head) * kv.valueDim, scratch);
}

} // namespace
} // namespace moert
