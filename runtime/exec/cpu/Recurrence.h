// The kernels of sequences with states, in lanes. Included after Elementwise.h.
#pragma once

#include "runtime/exec/cpu/Elementwise.h"

namespace moert {
namespace {

void convolve(const float *x, const float *weight, uint32_t taps, float *tail, uint32_t width,
              uint32_t position, bool silu, uint32_t begin, uint32_t end, float *y) {
  const uint32_t kept = taps - 1, oldest = position % kept;
  forLanes(end - begin, [&](uint64_t from, uint32_t count) {
    const uint64_t i = begin + from;
    const float *own = weight + i * taps; // Panels have kLanes elements.
    Lanes sum = zeroLanes();
    for (uint32_t tap = 0; tap < kept; ++tap) {
      const uint32_t row = oldest + tap < kept ? oldest + tap : oldest + tap - kept;
      sum = fma(load(own + tap * kLanes), loadUpTo(tail + uint64_t(row) * width + i, count), sum);
    }
    const Lanes input = loadUpTo(x + i, count);
    sum = fma(load(own + kept * kLanes), input, sum);
    storeUpTo(tail + uint64_t(oldest) * width + i, input, count);
    storeUpTo(y + i, silu ? divide(sum, sigmoidDivisor(sum)) : sum, count);
  });
}

void unitNorm(float *x, uint64_t xStride, uint32_t rows, uint32_t cols, uint32_t segment,
              float epsilon) {
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t first = 0; first < cols; first += segment) {
      float *own = x + row * xStride + first;
      Lanes squares = zeroLanes(); // Never -0, so zero lanes of the remainder change nothing.
      forLanes(segment, [&](uint64_t i, uint32_t count) {
        const Lanes values = loadUpTo(own + i, count);
        squares = fma(values, values, squares);
      });
      const Lanes reciprocal = splat(reciprocalRoot(treeSum(squares), epsilon));
      forLanes(segment, [&](uint64_t i, uint32_t count) {
        storeUpTo(own + i, multiply(loadUpTo(own + i, count), reciprocal), count);
      });
    }
}

/// One token's vectors of one head; decayStep: 1 if each row of the state has a decay, otherwise 0.
struct DeltaStep {
  const float *query, *key, *value, *decay;
  uint32_t decayStep;
  float write, scale;
  uint32_t keyDim, valueDim;
};

/// Columns of the state that are computed together, in lanes: their sums do not wait for each
/// other.
constexpr uint32_t kColumnsTogether = 4;

template <uint32_t kColumns>
inline void deltaColumns(const DeltaStep &step, uint32_t first, uint32_t lastCount, float *state,
                         float *out) {
  const auto countOf = [&](uint32_t column) { return column + 1 == kColumns ? lastCount : kLanes; };
  Lanes sums[kColumns];
  for (Lanes &sum : sums)
    sum = zeroLanes();
  // The faded elements are computed twice, which is faster than storing them twice.
  const auto faded = [&](Lanes decay, const float *row, uint32_t c) {
    return multiply(decay, loadUpTo(row + c * kLanes, countOf(c)));
  };
  for (uint32_t i = 0; i < step.keyDim; ++i) {
    const float *row = state + uint64_t(i) * step.valueDim + first;
    const Lanes key = splat(step.key[i]), decay = splat(step.decay[i * step.decayStep]);
    for (uint32_t c = 0; c < kColumns; ++c)
      sums[c] = fma(key, faded(decay, row, c), sums[c]);
  }
  Lanes updates[kColumns];
  for (uint32_t c = 0; c < kColumns; ++c) {
    const Lanes value = loadUpTo(step.value + first + c * kLanes, countOf(c));
    updates[c] = multiply(splat(step.write), subtract(value, sums[c]));
    sums[c] = zeroLanes();
  }
  for (uint32_t i = 0; i < step.keyDim; ++i) {
    float *row = state + uint64_t(i) * step.valueDim + first;
    const Lanes key = splat(step.key[i]), query = splat(step.query[i]);
    const Lanes decay = splat(step.decay[i * step.decayStep]);
    for (uint32_t c = 0; c < kColumns; ++c) {
      const Lanes element = fma(key, updates[c], faded(decay, row, c));
      storeUpTo(row + c * kLanes, element, countOf(c));
      sums[c] = fma(query, element, sums[c]);
    }
  }
  for (uint32_t c = 0; c < kColumns; ++c)
    storeUpTo(out + first + c * kLanes, multiply(splat(step.scale), sums[c]), countOf(c));
}

void deltaRule(const float *query, const float *key, const float *value, const float *decay,
               bool perRow, float write, float scale, uint32_t keyDim, uint32_t valueDim,
               float *state, float *out) {
  const DeltaStep step = {query, key, value, decay, perRow, write, scale, keyDim, valueDim};
  uint32_t first = 0;
  for (; first + kColumnsTogether * kLanes <= valueDim; first += kColumnsTogether * kLanes)
    deltaColumns<kColumnsTogether>(step, first, kLanes, state, out);
  for (; first < valueDim; first += kLanes)
    deltaColumns<1>(step, first, valueDim - first < kLanes ? valueDim - first : kLanes, state, out);
}

inline Lanes gelu(Lanes x) {
  const Lanes one = splat(1.0f), zero = zeroLanes();
  const Lanes magnitude = whereLess(x, zero, negate(x), x);
  const Lanes t = divide(one, fma(splat(kNormalTailRate), magnitude, one));
  Lanes polynomial = splat(kNormalTail[0]);
  for (int i = 1; i < 5; ++i)
    polynomial = fma(polynomial, t, splat(kNormalTail[i]));
  const Lanes power = exponential(multiply(multiply(splat(-0.5f), x), x));
  const Lanes tail = multiply(multiply(power, t), polynomial);
  return multiply(x, whereLess(x, zero, tail, subtract(one, tail)));
}

void apply(RowFunction function, const float *x, const float *factor, const float *bias,
           uint32_t size, float *y) {
  if (function == RowFunction::kSoftplus || function == RowFunction::kSignedRoot)
    return reference::apply(function, x, factor, bias, size, y); // In double, or of a few elements.
  forLanes(size, [&](uint64_t i, uint32_t count) {
    Lanes values = loadUpTo(x + i, count);
    if (factor)
      values = multiply(loadUpTo(factor + i, count), values);
    if (bias)
      values = add(values, loadUpTo(bias + i, count));
    if (function == RowFunction::kSilu)
      values = divide(values, sigmoidDivisor(values));
    else if (function == RowFunction::kSquaredRelu)
      values = whereLess(values, zeroLanes(), zeroLanes(), multiply(values, values));
    else if (function == RowFunction::kGelu)
      values = gelu(values);
    else if (function == RowFunction::kRelu)
      values = whereLess(values, zeroLanes(), zeroLanes(), values);
    storeUpTo(y + i, values, count);
  });
  if (function == RowFunction::kTanh)
    softCap(1, size, y);
}

/// Adds key[i] * update to the faded state of one row in lanes, and the row to the result's sums.
struct ScanColumns {
  Lanes update, sum = zeroLanes();
  uint32_t count;

  void advance(float key, float query, Lanes decay, float *row) {
    const Lanes element = fma(splat(key), update, multiply(decay, loadUpTo(row, count)));
    storeUpTo(row, element, count);
    sum = fma(splat(query), element, sum);
  }
};

void stateSpace(const float *query, const float *key, const float *value, float decay, float step,
                float skip, uint32_t keyDim, uint32_t valueDim, float *state, float *out) {
  const Lanes factor = splat(decay);
  forLanes(valueDim, [&](uint64_t d, uint32_t count) {
    const Lanes values = loadUpTo(value + d, count);
    ScanColumns columns = {.update = multiply(splat(step), values), .count = count};
    for (uint32_t i = 0; i < keyDim; ++i)
      columns.advance(key[i], query[i], factor, state + uint64_t(i) * valueDim + d);
    storeUpTo(out + d, fma(splat(skip), values, columns.sum), count);
  });
}

void selectiveScan(const float *query, const float *key, const float *value, const float *step,
                   const float *logRate, const float *skip, uint32_t keyDim, uint32_t width,
                   uint32_t begin, uint32_t end, float *state, float *out) {
  forLanes(end - begin, [&](uint64_t from, uint32_t count) {
    const uint64_t d = begin + from;
    const float *own = logRate + d * keyDim; // Panels have kLanes elements.
    const Lanes values = loadUpTo(value + d, count), steps = loadUpTo(step + d, count);
    ScanColumns columns = {.update = multiply(steps, values), .count = count};
    for (uint32_t i = 0; i < keyDim; ++i) {
      const Lanes rate = exponential(load(own + i * kLanes));
      columns.advance(key[i], query[i], exponential(negate(multiply(rate, steps))),
                      state + uint64_t(i) * width + d);
    }
    storeUpTo(out + d, fma(loadUpTo(skip + d, count), values, columns.sum), count);
  });
}

void gate(GateKind kind, const float *x, const float *gates, uint32_t cols, float *y) {
  forLanes(cols, [&](uint64_t i, uint32_t count) {
    Lanes factor = loadUpTo(gates + i, count);
    if (kind == GateKind::kSigmoid)
      factor = divide(splat(1.0f), sigmoidDivisor(factor));
    storeUpTo(y + i, multiply(factor, loadUpTo(x + i, count)), count);
  });
}

} // namespace
} // namespace moert
