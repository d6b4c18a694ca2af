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

static double sigmoidOf(double x) {
  const double power = deterministicExp(x > 0 ? -x : x); // At most 1.
  return (x > 0 ? 1 : power) / (1 + power);
}

void decay(const float *x, float logRate, const float *bias, float bound, uint32_t count,
           float *y) {
  const double rate = deterministicExp(logRate);
  for (uint32_t i = 0; i < count; ++i) {
    const float step = x[i] + bias[i];
    // The functions take finite numbers only.
    if (!std::isfinite(step) || !std::isfinite(logRate))
      y[i] = __builtin_nanf("");
    else
      y[i] = static_cast<float>(
          deterministicExp(bound < 0 ? bound * sigmoidOf(rate * step) : -rate * softplus(step)));
  }
}

void deltaRule(const float *query, const float *key, const float *value, const float *decay,
               bool perRow, float write, float scale, uint32_t keyDim, uint32_t valueDim,
               float *state, float *out) {
  for (uint32_t d = 0; d < valueDim; ++d) {
    float recalled = 0;
    for (uint32_t i = 0; i < keyDim; ++i) {
      float &element = state[uint64_t(i) * valueDim + d];
      element = decay[perRow ? i : 0] * element;
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

static float gelu(float x) {
  const float t = 1.0f / std::fma(kNormalTailRate, x < 0 ? -x : x, 1.0f);
  float polynomial = kNormalTail[0];
  for (int i = 1; i < 5; ++i)
    polynomial = std::fma(polynomial, t, kNormalTail[i]);
  const float tail = exponential(-0.5f * x * x) * t * polynomial;
  return x * (x < 0 ? tail : 1.0f - tail);
}

static float applied(RowFunction function, float x) {
  switch (function) {
  case RowFunction::kIdentity:
    return x;
  case RowFunction::kSilu:
    return x / (1.0f + exponential(-x));
  case RowFunction::kSoftplus: // The functions of double take finite numbers only.
    return std::isfinite(x) ? static_cast<float>(softplus(x)) : __builtin_nanf("");
  case RowFunction::kSquaredRelu:
    return x < 0 ? 0.0f : x * x;
  case RowFunction::kSignedRoot: {
    const float root = std::sqrt(std::fabs(x) < 1e-6f ? 1e-6f : std::fabs(x));
    return x < 0 ? -root : x > 0 ? root : x;
  }
  case RowFunction::kGelu:
    return gelu(x);
  case RowFunction::kRelu:
    return x < 0 ? 0.0f : x;
  case RowFunction::kTanh:
    softCap(1, 1, &x);
    return x;
  }
  return x;
}

void apply(RowFunction function, const float *x, const float *factor, const float *bias,
           uint32_t count, float *y) {
  for (uint32_t i = 0; i < count; ++i) {
    const float scaled = factor ? factor[i] * x[i] : x[i];
    y[i] = applied(function, bias ? scaled + bias[i] : scaled);
  }
}

void stateSpace(const float *query, const float *key, const float *value, float decay, float step,
                float skip, uint32_t keyDim, uint32_t valueDim, float *state, float *out) {
  for (uint32_t d = 0; d < valueDim; ++d) {
    const float update = step * value[d];
    float sum = 0;
    for (uint32_t i = 0; i < keyDim; ++i) {
      float &element = state[uint64_t(i) * valueDim + d];
      element = std::fma(key[i], update, decay * element);
      sum = std::fma(query[i], element, sum);
    }
    out[d] = std::fma(skip, value[d], sum);
  }
}

void selectiveScan(const float *query, const float *key, const float *value, const float *step,
                   const float *logRate, const float *skip, uint32_t keyDim, uint32_t width,
                   uint32_t begin, uint32_t end, float *state, float *out) {
  for (uint32_t d = begin; d < end; ++d) {
    const float *own = logRate + uint64_t(d / kPanelRows) * keyDim * kPanelRows + d % kPanelRows;
    const float update = step[d] * value[d];
    float sum = 0;
    for (uint32_t i = 0; i < keyDim; ++i) {
      float &element = state[uint64_t(i) * width + d];
      const float decay = exponential(-(exponential(own[i * kPanelRows]) * step[d]));
      element = std::fma(key[i], update, decay * element);
      sum = std::fma(query[i], element, sum);
    }
    out[d] = std::fma(skip[d], value[d], sum);
  }
}

void gate(GateKind kind, const float *x, const float *gate, uint32_t cols, float *y) {
  for (uint32_t i = 0; i < cols; ++i)
    y[i] = (kind == GateKind::kSigmoid ? sigmoidOf(gate[i]) : gate[i]) * x[i];
}

} // namespace moert::reference
