// Attention of one token over the cached keys and values of its session.
#include "runtime/exec/reference/PartialSums.h"
#include "runtime/exec/reference/Reference.h"
#include "runtime/exec/reference/StoredElement.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace moert::reference {

void storeKvRow(KvKind kind, const float *x, uint32_t count, std::byte *row) {
  if (kind == KvKind::kF32) {
    std::memcpy(row, x, count * sizeof(float));
    return;
  }
  if (kind == KvKind::kInt8) {
    std::byte *scales = row + count;
    for (uint32_t i = 0; i < count; i += kKvGroup, scales += sizeof(float)) {
      const uint32_t real = std::min(kKvGroup, count - i);
      int8_t codes[kKvGroup];
      float scale;
      int32_t sum;
      quantizeRows(x + i, 0, 1, real, {codes, &scale, &sum, kKvGroup, kKvGroup, 0, 0});
      std::memcpy(row + i, codes, real);
      std::memcpy(scales, &scale, sizeof scale);
    }
    return;
  }
  for (uint32_t i = 0; i < count; ++i) {
    float value = x[i] > kMaxKvF16 ? kMaxKvF16 : x[i];
    value = value < -kMaxKvF16 ? -kMaxKvF16 : value;
    const uint16_t bits = f32ToF16(value);
    std::memcpy(row + i * sizeof bits, &bits, sizeof bits);
  }
}

namespace {

/// The row of a head at a position.
struct StoredRow {
  KvKind kind;
  uint32_t elements;
  const std::byte *bytes;

  float operator[](uint32_t element) const {
    const std::byte *at = bytes + kvElementOffset(kind, element);
    if (kind == KvKind::kF32)
      return loadF32(at);
    if (kind == KvKind::kF16)
      return f16ToF32(loadU16(at));
    const std::byte *scales = bytes + kvElementOffset(kind, elements);
    return loadF32(scales + element / kKvGroup * sizeof(float)) *
           static_cast<float>(static_cast<int8_t>(*at));
  }

private:
  static float loadF32(const std::byte *from) {
    float value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
};

} // namespace

static StoredRow rowOf(const KvView &kv, const std::byte *const *blocks, uint32_t key,
                       uint32_t kvHead, uint32_t elements) {
  const uint32_t position = kv.chosen ? static_cast<uint32_t>(kv.chosen[key]) : key;
  const uint64_t step = kvRowBytes(kv.kind, elements);
  const uint64_t inBlock = kvHead * kv.headRows + position % kKvBlockTokens;
  return {kv.kind, elements, blocks[position / kKvBlockTokens] + inBlock * step};
}

static float dot(const float *a, const StoredRow &b, uint32_t count) {
  PartialSums sums;
  for (uint32_t i = 0; i < count; ++i)
    sums.lane[i % kPartialSums] = std::fma(a[i], b[i], sums.lane[i % kPartialSums]);
  return sums.total();
}

// probabilities[j - begin] = exponential(score - largest score), for keys j of [begin, end). The
// result is the same for the sink, which is a score too; 0 without one.
static float scoreKeys(const float *query, const KvView &kv, uint32_t kvHead, uint32_t begin,
                       uint32_t end, float scale, const float *sink, const float *biases,
                       float *probabilities) {
  float largest = -std::numeric_limits<float>::infinity();
  for (uint32_t j = begin; j < end; ++j) {
    const StoredRow key = rowOf(kv, kv.keyBlocks, j, kvHead, kv.keyDim);
    float score = dot(query, key, kv.keyDim) * scale;
    if (biases)
      score = score + biases[j - begin];
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
                       uint32_t end, float scale, const float *sink, const float *biases,
                       float *out, float *scratch) {
  float *probabilities = scratch;
  float *block = scratch + (uint64_t(end - begin) + 15) / 16 * 16;
  const float sinkPower =
      scoreKeys(query, kv, kvHead, begin, end, scale, sink, biases, probabilities);

  float sum = 0;
  std::fill(out, out + kv.valueDim, 0.0f);
  for (uint32_t j = begin; j < end;) {
    uint32_t blockEnd =
        static_cast<uint32_t>(std::min<uint64_t>(end, (uint64_t(j) / kSumBlock + 1) * kSumBlock));
    PartialSums blockSum;
    std::fill(block, block + kv.valueDim, 0.0f);
    for (; j < blockEnd; ++j) {
      float p = probabilities[j - begin];
      const StoredRow value = rowOf(kv, kv.valueRows(), j, kvHead, kv.firstValue() + kv.valueDim);
      blockSum.lane[j % kPartialSums] = blockSum.lane[j % kPartialSums] + p;
      for (uint32_t d = 0; d < kv.valueDim; ++d)
        block[d] = std::fma(p, value[kv.firstValue() + d], block[d]);
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
               scale, sinks ? sinks + head : nullptr, kv.biasesOf(head - headBegin),
               out + uint64_t(head) * kv.valueDim, scratch);
}

void scoreIndex(const float *query, const KvView &kv, const float *weights, uint32_t heads,
                uint32_t begin, uint32_t end, float *out, float *) {
  for (uint32_t j = begin; j < end; ++j) {
    float sum = 0;
    for (uint32_t head = 0; head < heads; ++head) {
      const float score = dot(query + uint64_t(head) * kv.keyDim,
                              rowOf(kv, kv.keyBlocks, j, 0, kv.keyDim), kv.keyDim);
      sum = std::fma(weights[head], score > 0 ? score : 0.0f, sum);
    }
    out[j - begin] = sum;
  }
}

} // namespace moert::reference
