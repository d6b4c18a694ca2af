// Attention of one token over the cached keys and values of its session.
#include "runtime/kernels/reference/PartialSums.h"
#include "runtime/kernels/reference/Reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moert::reference {

static const float *rowOf(const float *const *blocks, uint32_t position, uint64_t headRow,
                          uint32_t dim) {
  uint64_t inBlock = headRow + position % kKvBlockTokens;
  return blocks[position / kKvBlockTokens] + inBlock * dim;
}

static float dot(const float *a, const float *b, uint32_t count) {
  PartialSums sums;
  for (uint32_t i = 0; i < count; ++i)
    sums.lane[i % kPartialSums] = std::fma(a[i], b[i], sums.lane[i % kPartialSums]);
  return sums.total();
}

// probabilities[j - begin] = exponential(score - largest score), for keys j of [begin, end). The
// result is the same for the sink, which is a score too; 0 without one.
static float scoreKeys(const float *query, const KvView &kv, uint32_t kvHead, uint32_t begin,
                       uint32_t end, float scale, const float *sink, float *probabilities) {
  float largest = -std::numeric_limits<float>::infinity();
  for (uint32_t j = begin; j < end; ++j) {
    const float *key = rowOf(kv.keyBlocks, j, kvHead * kv.headRows, kv.keyDim);
    float score = dot(query, key, kv.keyDim) * scale;
    probabilities[j - begin] = score;
    if (score > largest)
      largest = score;
  }
  if (sink && *sink > largest)
    largest = *sink;
  for (uint32_t j = begin; j < end; ++j)
    probabilities[j - begin] = exponential(probabilities[j - begin] - largest);
  return sink ? exponential(*sink - largest) : 0;
}

static void attendHead(const float *query, const KvView &kv, uint32_t kvHead, uint32_t begin,
                       uint32_t end, float scale, const float *sink, float *out, float *scratch) {
  float *probabilities = scratch;
  float *block = scratch + (uint64_t(end - begin) + 15) / 16 * 16;
  const float sinkPower = scoreKeys(query, kv, kvHead, begin, end, scale, sink, probabilities);

  float sum = 0;
  std::fill(out, out + kv.valueDim, 0.0f);
  for (uint32_t j = begin; j < end;) {
    uint32_t blockEnd =
        static_cast<uint32_t>(std::min<uint64_t>(end, (uint64_t(j) / kSumBlock + 1) * kSumBlock));
    PartialSums blockSum;
    std::fill(block, block + kv.valueDim, 0.0f);
    for (; j < blockEnd; ++j) {
      float p = probabilities[j - begin];
      const float *value =
          rowOf(kv.valueRows(), j, kvHead * kv.headRows, kv.valueStep()) + kv.valueOffset();
      blockSum.lane[j % kPartialSums] = blockSum.lane[j % kPartialSums] + p;
      for (uint32_t d = 0; d < kv.valueDim; ++d)
        block[d] = std::fma(p, value[d], block[d]);
    }
    sum = sum + blockSum.total();
    for (uint32_t d = 0; d < kv.valueDim; ++d)
      out[d] = out[d] + block[d];
  }
  if (sink)
    sum = sum + sinkPower;
  for (uint32_t d = 0; d < kv.valueDim; ++d)
    out[d] = out[d] / sum;
}

void attend(const float *query, const KvView &kv, uint32_t heads, uint32_t headBegin,
            uint32_t headEnd, uint32_t begin, uint32_t end, float scale, const float *sinks,
            float *out, float *scratch) {
  for (uint32_t head = headBegin; head < headEnd; ++head)
    attendHead(query + uint64_t(head) * kv.keyDim, kv, head / (heads / kv.kvHeads), begin, end,
               scale, sinks ? sinks + head : nullptr, out + uint64_t(head) * kv.valueDim, scratch);
}

} // namespace moert::reference
