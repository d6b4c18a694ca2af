// Operations on single elements, independent of the others in a row.
#include "runtime/exec/reference/Reference.h"

#include <cmath>

namespace moert::reference {

void addBias(const float *x, uint64_t xStride, const float *bias, uint32_t rows, uint32_t cols,
             float *y, uint64_t yStride) {
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t i = 0; i < cols; ++i)
      y[row * yStride + i] = x[row * xStride + i] + bias[i];
}

void siluMultiply(const float *gate, const float *up, uint32_t rows, uint32_t cols, uint64_t stride,
                  float *y) {
  for (uint32_t row = 0; row < rows; ++row)
    for (uint64_t i = row * stride; i < row * stride + cols; ++i) {
      float silu = gate[i] / (1.0f + exponential(-gate[i]));
      y[i] = silu * up[i];
    }
}

void clampedSwiglu(float alpha, float limit, float shift, const float *gate, const float *up,
                   uint32_t rows, uint32_t cols, uint64_t stride, float *y) {
  for (uint32_t row = 0; row < rows; ++row)
    for (uint64_t i = row * stride; i < row * stride + cols; ++i) {
      float g = limit < gate[i] ? limit : gate[i];
      float u = limit < up[i] ? limit : up[i] < -limit ? -limit : up[i];
      float swish = g / (1.0f + exponential(-(alpha * g)));
      y[i] = swish * (u + shift);
    }
}

void geluTanhMultiply(const float *gate, const float *up, uint32_t rows, uint32_t cols,
                      uint64_t stride, float *y) {
  for (uint32_t row = 0; row < rows; ++row)
    for (uint64_t i = row * stride; i < row * stride + cols; ++i) {
      float x = gate[i];
      float twice = x * std::fma(kGeluCubic, x * x, kGeluLinear);
      float gelu = x / (1.0f + exponential(-twice));
      y[i] = gelu * up[i];
    }
}

void scale(const float *x, float factor, uint64_t count, float *y) {
  for (uint64_t i = 0; i < count; ++i)
    y[i] = factor * x[i];
}

void softCap(float limit, uint64_t count, float *x) {
  for (uint64_t i = 0; i < count; ++i) {
    float magnitude = x[i] < 0 ? -x[i] : x[i];
    float power = exponential(-2.0f * (magnitude / limit));
    float capped = limit * ((1.0f - power) / (1.0f + power));
    x[i] = x[i] < 0 ? -capped : capped;
  }
}

void addScaled(const float *a, const float *b, float scale, uint64_t count, float *y) {
  for (uint64_t i = 0; i < count; ++i)
    y[i] = std::fma(scale, b[i], a[i]);
}

void clamp(float limit, uint64_t count, float *x) {
  for (uint64_t i = 0; i < count; ++i)
    x[i] = limit < x[i] ? limit : x[i] < -limit ? -limit : x[i];
}

void gateRows(const float *x, const float *gate, uint64_t gateStride, uint32_t rows, uint32_t cols,
              uint64_t stride, float *y) {
  for (uint32_t row = 0; row < rows; ++row) {
    float sigmoid = 1.0f / (1.0f + exponential(-gate[row * gateStride]));
    for (uint64_t i = row * stride; i < row * stride + cols; ++i)
      y[i] = sigmoid * x[i];
  }
}

void combineRanks(const float *rankRows, uint64_t stride, const float *weights, uint32_t ranks,
                  uint32_t cols, float *out) {
  for (uint32_t i = 0; i < cols; ++i) {
    float sum = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank)
      sum = std::fma(weights[rank], rankRows[rank * stride + i], sum);
    out[i] = sum;
  }
}

void sigmoid(const float *x, uint32_t count, float *p) {
  for (uint32_t i = 0; i < count; ++i)
    p[i] = 1.0f / (1.0f + exponential(-x[i]));
}

} // namespace moert::reference
