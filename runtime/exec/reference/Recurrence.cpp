// What sequences with states compute between their products: convolutions along the tokens, the
// gated delta rule, and the gates around them.
#include "runtime/base/DeterministicMath.h"
#include "runtime/exec/reference/PartialSums.h"
#include "runtime/exec/reference/Reference.h"

#include <cmath>

namespace moert::reference {

static float sigmoidOf(float x) {
  return 1.0f / (1.0f + exponential(-x));
}

void convolve(const float *x, const float *weight, uint32_t taps, float *tail, uint32_t width,
              uint32_t position, bool silu, uint32_t begin, uint32_t end, float *y) {
  const uint32_t kept = taps - 1;
  for (uint32_t i = begin; i < end; ++i) {
    const float *own = weight + uint64_t(i / kPanelRows) * taps * kPanelRows + i % kPanelRows;
    float sum = 0;
    // The row of token t - kept is that of token t.
    for (uint32_t tap = 0; tap < kept; ++tap)
      sum = std::fma(own[tap * kPanelRows],
                     tail[uint64_t((position % kept + tap) % kept) * width + i], sum);
    sum = std::fma(own[kept * kPanelRows], x[i], sum);
    tail[uint64_t(position % kept) * width + i] = x[i];
    y[i] = silu ? sum / (1.0f + exponential(-sum)) : sum;
  }
}

void unitNorm(float *x, uint64_t xStride, uint32_t rows, uint32_t cols, uint32_t segment,
              float epsilon) {
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t first = 0; first < cols; first += segment) {
      float *own = x + row * xStride + first;
      PartialSums squares;
      for (uint32_t i = 0; i < segment; ++i) {
        float &sum = squares.lane[i % kPartialSums];
        sum = std::fma(own[i], own[i], sum);
      }
      const float reciprocal = 1.0f / std::sqrt(squares.total() + epsilon);
      for (uint32_t i = 0; i < segment; ++i)
        own[i] = own[i] * reciprocal;
    }
}

/// ln(1 + e^x) of a finite x.
static double softplus(double x) {
  const double rest = deterministicLog(1 + deterministicExp(x > 0 ? -x : x));
  return x > 0 ? x + rest : rest;
}

void decay(const float *x, const float *logRate, const float *bias, uint32_t count, float *y) {
  for (uint32_t i = 0; i < count; ++i) {
    const float step = x[i] + bias[i];
    // The functions take finite numbers only.
    if (!std::isfinite(step) || !std::isfinite(logRate[i]))
      y[i] = __builtin_nanf("");
    else
      y[i] = static_cast<float>(deterministicExp(-deterministicExp(logRate[i]) * softplus(step)));
  }
}

void deltaRule(const float *query, const float *key, const float *value, float decay, float write,
               float scale, uint32_t keyDim, uint32_t valueDim, float *state, float *out) {
  for (uint32_t d = 0; d < valueDim; ++d) {
    float recalled = 0;
    for (uint32_t i = 0; i < keyDim; ++i) {
      float &element = state[uint64_t(i) * valueDim + d];
      element = decay * element;
      recalled = std::fma(key[i], element, recalled);
    }
    const float update = write * (value[d] - recalled);
    float sum = 0;
    for (uint32_t i = 0; i < keyDim; ++i) {
      float &element = state[uint64_t(i) * valueDim + d];
      element = std::fma(key[i], update, element);
      sum = std::fma(query[i], element, sum);
    }
    out[d] = scale * sum;
  }
}

void gate(GateKind kind, const float *x, const float *gate, uint32_t cols, float *y) {
  for (uint32_t i = 0; i < cols; ++i)
    y[i] = (kind == GateKind::kSigmoid ? sigmoidOf(gate[i]) : gate[i]) * x[i];
}

} // namespace moert::reference
