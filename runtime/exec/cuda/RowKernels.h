// Operations on rows by themselves: embedding, norms, quantizing, rotation, activation, sums.
// Buffers are rows of f32 unless a comment says otherwise; strides count elements.
#pragma once

#include "runtime/exec/Hadamard.h"
#include "runtime/exec/cuda/StoredWeights.h"

namespace moert::device {

/// A token of the batch, and the memory of its sequence (SequenceMemory::create).
struct TokenRow {
  std::byte *memory;
  uint32_t capacity; // Tokens that the memory is for.
  uint32_t position;
  int32_t token;
};

/// dst = scale * row `token` of the matrix (KernelTable::gatherRow).
struct EmbedRows {
  using Shared = NothingShared;
  Matrix m;
  const TokenRow *tokens;
  uint32_t rows;
  float scale;
  float *dst;
  uint64_t dstStride;

  uint32_t blocks() const { return rowBlocks(rows, m.w.shape.cols); }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &) const {
    forElements(threads, m.w.shape.cols, [&](uint32_t row, uint32_t i) {
      dst[row * dstStride + i] = valueOf(m, static_cast<uint32_t>(tokens[row].token), i) * scale;
    });
  }
};

/// KernelTable::norm. A block has one segment of one row.
struct NormRows {
  struct Shared {
    float lanes[16];
    float mean, reciprocal;
  };
  NormKind kind;
  const float *x;
  uint64_t xStride;
  uint32_t rows, cols, segment;
  const float *weight, *bias; // Null: none.
  float epsilon;
  float *y;
  uint64_t yStride;

  uint32_t blocks() const { return rows * (cols / segment); }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &shared) const {
    const uint32_t perRow = cols / segment, row = threads.block / perRow;
    const uint32_t first = threads.block % perRow * segment;
    const float *const from = x + row * xStride + first;
    float *const to = y + row * yStride + first;
    const bool isLayer = kind == NormKind::kLayer;
    const auto sumLanes = [&](auto add) {
      threads.forEach(16, [&](uint32_t lane) {
        float sum = 0;
        for (uint32_t i = lane; i < segment; i += 16)
          sum = add(sum, from[i]);
        shared.lanes[lane] = sum;
      });
    };
    if (isLayer) {
      sumLanes([](float sum, float value) { return sum + value; });
      threads.forEach(
          1, [&](uint32_t) { shared.mean = treeOf(shared.lanes) / static_cast<float>(segment); });
    }
    const float mean = isLayer ? shared.mean : 0;
    if (isLayer)
      sumLanes(
          [mean](float sum, float value) { return std::fma(value - mean, value - mean, sum); });
    else
      sumLanes([](float sum, float value) { return std::fma(value, value, sum); });
    threads.forEach(1, [&](uint32_t) {
      const float square = treeOf(shared.lanes) / static_cast<float>(segment);
      shared.reciprocal = 1.0f / std::sqrt(square + epsilon);
    });
    threads.forEach(segment, [&](uint32_t i) {
      const float scaled = (isLayer ? from[i] - mean : from[i]) * shared.reciprocal;
      const float weighted = weight ? scaled * weight[i] : scaled;
      to[i] = !bias     ? weighted
              : isLayer ? std::fma(scaled, weight ? weight[i] : 1.0f, bias[i])
                        : weighted + bias[i];
    });
  }
};

/// KernelTable::quantizeRows. A thread has one group of one row.
struct QuantizeRows {
  using Shared = NothingShared;
  const float *x;
  uint64_t xStride;
  uint32_t rows, cols;
  QuantizedRows out;
  float hadamardFactor; // hadamardInputFactor() of the block.

  static constexpr uint32_t kGroups = 64; // In a block.
  uint32_t groups() const { return out.cols / out.group; }
  uint32_t blocks() const { return (rows * groups() + kGroups - 1) / kGroups; }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &) const {
    const uint32_t perRow = out.cols / out.group, all = rows * perRow;
    const uint32_t first = threads.block * kGroups;
    threads.forEach(all - first < kGroups ? all - first : kGroups,
                    [&](uint32_t i) { quantize((first + i) / perRow, (first + i) % perRow); });
  }

  MOERT_DEVICE void quantize(uint32_t row, uint32_t group) const {
    float all[kMaxHadamardBlock];
    const float *const values = all + read(x + row * xStride, group * out.group, all);
    float largest = 0;
    bool hasNaN = false;
    for (uint32_t i = 0; i < out.group; ++i) {
      hasNaN |= values[i] != values[i];
      largest = std::fabs(values[i]) > largest ? std::fabs(values[i]) : largest;
    }
    const float scale = hasNaN ? std::bit_cast<float>(0x7fc00000u) : largest / 127.0f;
    const bool isUsable = scale > 0 && scale < std::numeric_limits<float>::infinity();
    int8_t *const codes = out.codes + row * out.codesStride + group * out.group;
    int32_t sum = 0;
    for (uint32_t i = 0; i < out.group; ++i) {
      codes[i] = isUsable ? codeOf(values[i], scale) : int8_t(0);
      sum += codes[i];
    }
    out.scales[row * out.groupsStride + group] = scale;
    out.sums[row * out.groupsStride + group] = sum;
  }

private:
  /// The inputs of a group, transformed; returns where they begin in `values`. A transform's block
  /// holds groups, or a group blocks.
  MOERT_DEVICE uint32_t read(const float *from, uint32_t first, float *values) const {
    const uint32_t step = out.hadamardBlock < out.group ? out.group : out.hadamardBlock;
    const uint32_t begin = first - first % step;
    for (uint32_t i = 0; i < step; ++i)
      values[i] = begin + i < cols ? from[begin + i] : 0;
    for (uint32_t i = 0; i < step && out.hadamardBlock > 1; i += out.hadamardBlock)
      hadamard(std::span(values + i, out.hadamardBlock), hadamardFactor);
    return first - begin;
  }

  MOERT_DEVICE static int8_t codeOf(float value, float scale) {
    float quotient = value / scale;
    quotient = quotient > 127 ? 127 : quotient;
    quotient = quotient < -127 ? -127 : quotient;
    return static_cast<int8_t>(std::nearbyint(quotient));
  }
};

/// KernelTable::rope for each row, with its table of cosines and, from sinesAt on, sines.
struct RotateRows {
  using Shared = NothingShared;
  float *x;
  uint64_t xStride;
  const float *tables;
  uint64_t tableStride;
  uint32_t rows, heads, headDim, count, sinesAt;
  bool isInterleaved;

  uint32_t blocks() const { return rowBlocks(rows, heads * count); }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &) const {
    forElements(threads, heads * count, [&](uint32_t row, uint32_t pair) {
      const uint32_t i = pair % count;
      float *const first =
          x + row * xStride + uint64_t(pair / count) * headDim + (isInterleaved ? 2 * i : i);
      float *const second = isInterleaved ? first + 1 : first + count;
      const float *const table = tables + row * tableStride;
      const float a = *first, b = *second, cosine = table[i], sine = table[sinesAt + i];
      *first = a * cosine - b * sine;
      *second = b * cosine + a * sine;
    });
  }
};

/// The activation of a network (moert::activate). y may be gate or up.
struct ActivateRows {
  using Shared = NothingShared;
  GluActivation activation;
  const float *gate, *up;
  uint64_t stride;
  uint32_t rows, cols;
  float *y;

  uint32_t blocks() const { return rowBlocks(rows, cols); }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &) const {
    forElements(threads, cols, [&](uint32_t row, uint32_t i) {
      const uint64_t at = row * stride + i;
      y[at] = activated(gate[at], up[at]);
    });
  }

private:
  MOERT_DEVICE float activated(float g, float u) const {
    switch (activation.kind) {
    case Activation::kSilu:
      return g / (1.0f + exponentialOf(-g)) * u;
    case Activation::kGeluTanh:
      return g / (1.0f + exponentialOf(-(g * std::fma(kGeluCubic, g * g, kGeluLinear)))) * u;
    case Activation::kSquaredRelu:
      return u * (u > 0 ? u : 0);
    case Activation::kRelu:
      return u < 0 ? 0.0f : u;
    case Activation::kGelu: // Only of a vision model, which devices refuse.
    case Activation::kClampedSwiglu:
    case Activation::kClampedSilu:
      break;
    }
    const float limit = activation.limit;
    g = limit < g ? limit : g;
    u = limit < u ? limit : u < -limit ? -limit : u;
    const float shift = activation.kind == Activation::kClampedSwiglu ? 1.0f : 0.0f;
    return g / (1.0f + exponentialOf(-(activation.alpha * g))) * (u + shift);
  }
};

/// y = a + scale * b (KernelTable::addScaled), or, without a, y = scale * b. y may be a or b.
struct AddRows {
  using Shared = NothingShared;
  const float *a, *b;
  uint64_t aStride, bStride, yStride;
  float scale;
  uint32_t rows, cols;
  float *y;

  uint32_t blocks() const { return rowBlocks(rows, cols); }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &) const {
    forElements(threads, cols, [&](uint32_t row, uint32_t i) {
      const float value = b[row * bStride + i];
      y[row * yStride + i] = a ? std::fma(scale, value, a[row * aStride + i]) : scale * value;
    });
  }
};

/// y = sigmoid(gate) * x for each of `heads` equal runs of a row (KernelTable::gateRows).
struct GateHeads {
  using Shared = NothingShared;
  const float *x, *gate;
  uint64_t xStride, gateStride, yStride;
  uint32_t rows, cols, heads;
  float *y;

  uint32_t blocks() const { return rowBlocks(rows, cols); }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &) const {
    forElements(threads, cols, [&](uint32_t row, uint32_t i) {
      const float factor = sigmoidOf(gate[row * gateStride + i / (cols / heads)]);
      y[row * yStride + i] = factor * x[row * xStride + i];
    });
  }
};

/// Copies parts of 4 bytes: row i of dst is row from[i] / divisor of src, or row i itself where
/// `from` is null, and goes to row to[i] of dst where that is not null.
struct CopyRows {
  using Shared = NothingShared;
  const std::byte *src;
  uint64_t srcBytes; // From one row to the next.
  const uint32_t *from, *to;
  uint32_t divisor, rows, words;
  std::byte *dst;
  uint64_t dstBytes;

  uint32_t blocks() const { return rowBlocks(rows, words); }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &) const {
    forElements(threads, words, [&](uint32_t row, uint32_t i) {
      const uint64_t source = from ? from[row] / divisor : row, target = to ? to[row] : row;
      *(reinterpret_cast<uint32_t *>(dst + target * dstBytes) + i) =
          *(reinterpret_cast<const uint32_t *>(src + source * srcBytes) + i);
    });
  }
};

/// y = the weighted sum of each row's ranks, which are `rankStride` apart
/// (KernelTable::combineRanks).
struct CombineRanks {
  using Shared = NothingShared;
  const float *ranks, *weights;
  uint64_t rowStride, rankStride, weightStride, yStride;
  uint32_t rows, cols, count;
  float *y;

  uint32_t blocks() const { return rowBlocks(rows, cols); }
  template <typename Threads> MOERT_DEVICE void run(const Threads &threads, Shared &) const {
    forElements(threads, cols, [&](uint32_t row, uint32_t i) {
      float sum = 0;
      for (uint32_t rank = 0; rank < count; ++rank)
        sum = std::fma(weights[row * weightStride + rank],
                       ranks[row * rowStride + rank * rankStride + i], sum);
      y[row * yStride + i] = sum;
    });
  }
};

} // namespace moert::device
