// Norms and softmax: sums along a row in 16 partial sums.
#include "runtime/exec/reference/PartialSums.h"
#include "runtime/exec/reference/Reference.h"

#include <cmath>
#include <limits>

namespace moert::reference {

static void rmsNorm(const float *x, uint32_t count, const float *weight, const float *bias,
                    float epsilon, float *y) {
  PartialSums squares;
  for (uint32_t i = 0; i < count; ++i)
    squares.lane[i % kPartialSums] = std::fma(x[i], x[i], squares.lane[i % kPartialSums]);
  float mean = squares.total() / static_cast<float>(count);
  float reciprocal = 1.0f / std::sqrt(mean + epsilon);
  for (uint32_t i = 0; i < count; ++i) {
    float scaled = x[i] * reciprocal;
    float weighted = weight ? scaled * weight[i] : scaled;
    y[i] = bias ? weighted + bias[i] : weighted;
  }
}

static void layerNorm(const float *x, uint32_t count, const float *weight, const float *bias,
                      float epsilon, float *y) {
  PartialSums sums;
  for (uint32_t i = 0; i < count; ++i)
    sums.lane[i % kPartialSums] = sums.lane[i % kPartialSums] + x[i];
  float mean = sums.total() / static_cast<float>(count);

  PartialSums squares;
  for (uint32_t i = 0; i < count; ++i) {
    float difference = x[i] - mean;
    squares.lane[i % kPartialSums] =
        std::fma(difference, difference, squares.lane[i % kPartialSums]);
  }
  float variance = squares.total() / static_cast<float>(count);
  float reciprocal = 1.0f / std::sqrt(variance + epsilon);
  for (uint32_t i = 0; i < count; ++i) {
    float scaled = (x[i] - mean) * reciprocal;
    float factor = weight ? weight[i] : 1.0f;
    y[i] = bias ? std::fma(scaled, factor, bias[i]) : scaled * factor;
  }
}

void norm(NormKind kind, const float *x, uint64_t xStride, uint32_t rows, uint32_t cols,
          uint32_t segment, const float *weight, const float *bias, float epsilon, float *y,
          uint64_t yStride) {
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t first = 0; first < cols; first += segment) {
      const float *from = x + row * xStride + first;
      float *to = y + row * yStride + first;
      if (kind == NormKind::kRms)
        rmsNorm(from, segment, weight, bias, epsilon, to);
      else
        layerNorm(from, segment, weight, bias, epsilon, to);
    }
}

void softmax(const float *x, uint32_t count, float *p) {
  float largest = -std::numeric_limits<float>::infinity();
  for (uint32_t i = 0; i < count; ++i)
    if (x[i] > largest)
      largest = x[i];
  PartialSums sums;
  for (uint32_t i = 0; i < count; ++i) {
    p[i] = exponential(x[i] - largest);
    sums.lane[i % kPartialSums] = sums.lane[i % kPartialSums] + p[i];
  }
  float sum = sums.total();
  for (uint32_t i = 0; i < count; ++i)
    p[i] = p[i] / sum;
}

} // namespace moert::reference
