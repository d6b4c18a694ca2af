// The kernels that work along rows, in lanes: quantizing, norms, softmax and everything
// elementwise. Included after Lanes256.h, Lanes512.h or LanesNeon.h.
#pragma once

#include "runtime/exec/ExpConstants.h"
#include "runtime/exec/Hadamard.h"
#include "runtime/exec/Kernels.h"

namespace moert {
namespace {

constexpr uint32_t kLanes = 16;

inline Lanes exponential(Lanes x) {
  Lanes shift = splat(kRoundingShift);
  Lanes shifted = fma(x, splat(kLog2E), shift);
  Lanes n = subtract(shifted, shift);
  Lanes r = fma(n, splat(-kLn2High), x);
  r = fma(n, splat(-kLn2Low), r);
  Lanes polynomial = splat(kExpPolynomial[0]);
  for (int i = 1; i < 6; ++i)
    polynomial = fma(polynomial, r, splat(kExpPolynomial[i]));
  Lanes mantissa = add(fma(multiply(r, r), polynomial, r), splat(1.0f));
  Lanes result = scaleByPower(mantissa, shifted, shift);
  result = whereLess(splat(kExpOverflow), x, splat(__builtin_inff()), result);
  result = whereLess(x, splat(kExpUnderflow), zeroLanes(), result);
  return whereNaN(x, x, result);
}

inline Lanes sigmoidDivisor(Lanes x) {
  return add(splat(1.0f), exponential(negate(x)));
}

/// Calls apply(begin, count) for runs of 16 elements and for the remainder.
template <typename Apply> inline void forLanes(uint64_t elements, Apply apply) {
  uint64_t i = 0;
  for (; i + kLanes <= elements; i += kLanes)
    apply(i, kLanes);
  if (i < elements)
    apply(i, static_cast<uint32_t>(elements - i));
}

/// Loads `count` lanes, the others 0. All 16 is the common case and needs no mask.
inline Lanes loadUpTo(const float *from, uint32_t count) {
  return count == kLanes ? load(from) : loadFirst(from, count);
}
inline void storeUpTo(float *to, Lanes a, uint32_t count) {
  if (count == kLanes)
    store(to, a);
  else
    storeFirst(to, a, count);
}

inline void quantizeGroup(const float *x, uint32_t real, uint32_t group, int8_t *codes,
                          float *scaleTo, int32_t *sumTo) {
  Magnitudes magnitudes = zeroMagnitudes();
  forLanes(real, [&](uint64_t i, uint32_t count) {
    magnitudes = largerMagnitudes(magnitudes, loadUpTo(x + i, count));
  });
  // As integers NaN > infinity > all numbers.
  constexpr int32_t kInfinity = 0x7f800000;
  int32_t largestBits = largestMagnitude(magnitudes);
  float largest;
  __builtin_memcpy(&largest, &largestBits, sizeof largest);
  float scale = largestBits > kInfinity ? __builtin_nanf("") : largest / 127.0f;
  bool isUsable = scale > 0 && largestBits < kInfinity;

  int32_t sum = 0;
  Lanes limit = splat(127.0f), lowLimit = splat(-127.0f), divisor = splat(scale);
  for (uint32_t i = 0; i < group; i += kLanes) {
    Lanes quotient = zeroLanes();
    if (isUsable && i < real) {
      uint32_t count = real - i < kLanes ? real - i : kLanes;
      quotient = divide(loadUpTo(x + i, count), divisor);
      quotient = whereLess(limit, quotient, limit, quotient);
      quotient = whereLess(quotient, lowLimit, lowLimit, quotient);
    }
    sum += storeCodes(codes + i, quotient);
  }
  *scaleTo = scale;
  *sumTo = sum;
}

/// Signs of the lower and the upper lanes of pairs 1, 2, 4 and 8 lanes apart.
alignas(64) constexpr float kButterflySigns[4][kLanes] = {
    {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
    {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1},
    {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1},
    {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}};

/// The sum in the lower lane of each pair, the difference in the upper one. The product is exact.
template <int kStage> inline Lanes butterfly(Lanes a) {
  return fma(a, load(kButterflySigns[kStage]), exchange<1 << kStage>(a));
}

/// hadamard() (Hadamard.h) of the blocks among kMaxHadamardBlock values; from may be to.
inline void transformBlocks(uint32_t block, const float *from, float *to) {
  constexpr uint32_t kVectors = kMaxHadamardBlock / kLanes;
  const Lanes factor = splat(kHadamardInputFactors[__builtin_ctz(block)]);
  Lanes v[kVectors];
  for (uint32_t i = 0; i < kVectors; ++i) {
    Lanes a = load(from + i * kLanes);
    a = block > 1 ? butterfly<0>(a) : a;
    a = block > 2 ? butterfly<1>(a) : a;
    a = block > 4 ? butterfly<2>(a) : a;
    v[i] = block > 8 ? butterfly<3>(a) : a;
  }
  for (uint32_t apart = 1; apart * kLanes < block; apart *= 2)
    for (uint32_t i = 0; i < kVectors; ++i)
      if ((i & apart) == 0) {
        const Lanes a = v[i], b = v[i + apart];
        v[i] = add(a, b);
        v[i + apart] = subtract(a, b);
      }
  for (uint32_t i = 0; i < kVectors; ++i)
    store(to + i * kLanes, multiply(v[i], factor));
}

void quantizeTransformedRow(const float *x, uint32_t cols, uint32_t row, const QuantizedRows &out) {
  for (uint32_t first = 0; first < out.cols; first += kMaxHadamardBlock) {
    const uint32_t left = cols - first;
    const uint32_t real = left < kMaxHadamardBlock ? left : kMaxHadamardBlock;
    const float *from = x + first;
    alignas(64) float values[kMaxHadamardBlock];
    if (real < kMaxHadamardBlock) { // The end of a row.
      __builtin_memset(values, 0, sizeof values);
      __builtin_memcpy(values, from, real * sizeof(float));
      from = values;
    }
    transformBlocks(out.hadamardBlock, from, values);
    for (uint32_t i = 0; i < kMaxHadamardBlock && first + i < out.cols; i += out.group) {
      const uint32_t rest = real - i;
      const uint64_t entry = row * out.groupsStride + (first + i) / out.group;
      quantizeGroup(values + i, rest < out.group ? rest : out.group, out.group,
                    out.codes + row * out.codesStride + first + i, out.scales + entry,
                    out.sums + entry);
    }
  }
}

void quantizeRows(const float *x, uint64_t xStride, uint32_t rows, uint32_t cols,
                  const QuantizedRows &out) {
  if (out.hadamardBlock > 1) {
    for (uint32_t row = 0; row < rows; ++row)
      quantizeTransformedRow(x + row * xStride, cols, row, out);
    return;
  }
  uint32_t groups = out.cols / out.group;
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t group = 0; group < groups; ++group) {
      uint32_t first = group * out.group;
      uint32_t real = first >= cols ? 0 : cols - first;
      uint64_t entry = row * out.groupsStride + group;
      quantizeGroup(x + row * xStride + first, real < out.group ? real : out.group, out.group,
                    out.codes + row * out.codesStride + first, out.scales + entry,
                    out.sums + entry);
    }
}

void addBias(const float *x, uint64_t xStride, const float *bias, uint32_t rows, uint32_t cols,
             float *y, uint64_t yStride) {
  for (uint32_t row = 0; row < rows; ++row)
    forLanes(cols, [&](uint64_t i, uint32_t count) {
      Lanes sum = add(loadUpTo(x + row * xStride + i, count), loadUpTo(bias + i, count));
      storeUpTo(y + row * yStride + i, sum, count);
    });
}

inline float reciprocalRoot(float mean, float epsilon) {
  return 1.0f / __builtin_sqrtf(mean + epsilon);
}

inline void rmsNorm(const float *x, uint32_t size, const float *weight, const float *bias,
                    float epsilon, float *y) {
  Lanes squares = zeroLanes(); // Never -0, so zero lanes of the remainder change nothing.
  forLanes(size, [&](uint64_t i, uint32_t count) {
    Lanes values = loadUpTo(x + i, count);
    squares = fma(values, values, squares);
  });
  float mean = treeSum(squares) / static_cast<float>(size);
  Lanes reciprocal = splat(reciprocalRoot(mean, epsilon));
  forLanes(size, [&](uint64_t i, uint32_t count) {
    Lanes scaled = multiply(loadUpTo(x + i, count), reciprocal);
    Lanes result = weight ? multiply(scaled, loadUpTo(weight + i, count)) : scaled;
    if (bias)
      result = add(result, loadUpTo(bias + i, count));
    storeUpTo(y + i, result, count);
  });
}

inline void layerNorm(const float *x, uint32_t size, const float *weight, const float *bias,
                      float epsilon, float *y) {
  Lanes sums = zeroLanes();
  forLanes(size, [&](uint64_t i, uint32_t count) { sums = add(sums, loadUpTo(x + i, count)); });
  Lanes mean = splat(treeSum(sums) / static_cast<float>(size));
  Lanes squares = zeroLanes();
  forLanes(size, [&](uint64_t i, uint32_t count) {
    Lanes difference = subtract(loadUpTo(x + i, count), mean);
    squares = count == kLanes ? fma(difference, difference, squares)
                              : fmaFirst(difference, difference, squares, count);
  });
  float variance = treeSum(squares) / static_cast<float>(size);
  Lanes reciprocal = splat(reciprocalRoot(variance, epsilon));
  forLanes(size, [&](uint64_t i, uint32_t count) {
    Lanes scaled = multiply(subtract(loadUpTo(x + i, count), mean), reciprocal);
    Lanes weights = weight ? loadUpTo(weight + i, count) : splat(1.0f);
    Lanes result =
        bias ? fma(scaled, weights, loadUpTo(bias + i, count)) : multiply(scaled, weights);
    storeUpTo(y + i, result, count);
  });
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

/// Pairs (2i, 2i + 1), and halves that are not a multiple of 16, use the reference.
void rope(float *x, uint32_t heads, uint32_t headDim, const float *cosines, const float *sines,
          uint32_t count, bool interleaved) {
  if (interleaved || count % kLanes != 0)
    return reference::rope(x, heads, headDim, cosines, sines, count, interleaved);
  for (uint32_t head = 0; head < heads; ++head) {
    float *first = x + uint64_t(head) * headDim, *second = first + count;
    for (uint32_t i = 0; i < count; i += kLanes) {
      Lanes a = load(first + i), b = load(second + i);
      Lanes cosine = load(cosines + i), sine = load(sines + i);
      store(first + i, subtract(multiply(a, cosine), multiply(b, sine)));
      store(second + i, add(multiply(b, cosine), multiply(a, sine)));
    }
  }
}

void siluMultiply(const float *gate, const float *up, uint32_t rows, uint32_t cols, uint64_t stride,
                  float *y) {
  for (uint32_t row = 0; row < rows; ++row)
    forLanes(cols, [&](uint64_t i, uint32_t count) {
      uint64_t at = row * stride + i;
      Lanes x = loadUpTo(gate + at, count);
      Lanes silu = divide(x, sigmoidDivisor(x));
      storeUpTo(y + at, multiply(silu, loadUpTo(up + at, count)), count);
    });
}

inline Lanes clampTo(Lanes low, Lanes high, Lanes x) {
  return whereLess(high, x, high, whereLess(x, low, low, x));
}

void clampedSwiglu(float alpha, float limit, float shift, const float *gate, const float *up,
                   uint32_t rows, uint32_t cols, uint64_t stride, float *y) {
  const Lanes factor = splat(alpha), high = splat(limit), low = splat(-limit);
  for (uint32_t row = 0; row < rows; ++row)
    forLanes(cols, [&](uint64_t i, uint32_t count) {
      const uint64_t at = row * stride + i;
      Lanes g = loadUpTo(gate + at, count);
      g = whereLess(high, g, high, g);
      const Lanes u = clampTo(low, high, loadUpTo(up + at, count));
      const Lanes swish = divide(g, sigmoidDivisor(multiply(factor, g)));
      storeUpTo(y + at, multiply(swish, add(u, splat(shift))), count);
    });
}

void geluTanhMultiply(const float *gate, const float *up, uint32_t rows, uint32_t cols,
                      uint64_t stride, float *y) {
  const Lanes cubic = splat(kGeluCubic), linear = splat(kGeluLinear);
  for (uint32_t row = 0; row < rows; ++row)
    forLanes(cols, [&](uint64_t i, uint32_t count) {
      uint64_t at = row * stride + i;
      Lanes x = loadUpTo(gate + at, count);
      Lanes twice = multiply(x, fma(cubic, multiply(x, x), linear));
      Lanes gelu = divide(x, sigmoidDivisor(twice));
      storeUpTo(y + at, multiply(gelu, loadUpTo(up + at, count)), count);
    });
}

void scale(const float *x, float factor, uint64_t elements, float *y) {
  const Lanes factors = splat(factor);
  forLanes(elements, [&](uint64_t i, uint32_t count) {
    storeUpTo(y + i, multiply(factors, loadUpTo(x + i, count)), count);
  });
}

void softCap(float limit, uint64_t elements, float *x) {
  const Lanes limits = splat(limit), one = splat(1.0f), zero = zeroLanes();
  forLanes(elements, [&](uint64_t i, uint32_t count) {
    const Lanes value = loadUpTo(x + i, count);
    const Lanes magnitude = whereLess(value, zero, negate(value), value);
    const Lanes power = exponential(multiply(splat(-2.0f), divide(magnitude, limits)));
    const Lanes capped = multiply(limits, divide(subtract(one, power), add(one, power)));
    storeUpTo(x + i, whereLess(value, zero, negate(capped), capped), count);
  });
}

void addScaled(const float *a, const float *b, float scale, uint64_t elements, float *y) {
  Lanes factor = splat(scale);
  forLanes(elements, [&](uint64_t i, uint32_t count) {
    storeUpTo(y + i, fma(factor, loadUpTo(b + i, count), loadUpTo(a + i, count)), count);
  });
}

void clamp(float limit, uint64_t elements, float *x) {
  const Lanes high = splat(limit), low = splat(-limit);
  forLanes(elements, [&](uint64_t i, uint32_t count) {
    storeUpTo(x + i, clampTo(low, high, loadUpTo(x + i, count)), count);
  });
}

void gateRows(const float *x, const float *gate, uint64_t gateStride, uint32_t rows, uint32_t cols,
              uint64_t stride, float *y) {
  for (uint32_t row = 0; row < rows; ++row) {
    Lanes sigmoid = divide(splat(1.0f), sigmoidDivisor(splat(gate[row * gateStride])));
    forLanes(cols, [&](uint64_t i, uint32_t count) {
      uint64_t at = row * stride + i;
      storeUpTo(y + at, multiply(sigmoid, loadUpTo(x + at, count)), count);
    });
  }
}

void combineRanks(const float *rankRows, uint64_t stride, const float *weights, uint32_t ranks,
                  uint32_t cols, float *out) {
  forLanes(cols, [&](uint64_t i, uint32_t count) {
    Lanes sum = zeroLanes();
    for (uint32_t rank = 0; rank < ranks; ++rank)
      sum = fma(splat(weights[rank]), loadUpTo(rankRows + rank * stride + i, count), sum);
    storeUpTo(out + i, sum, count);
  });
}

/// The largest of `size` numbers; NaNs count as less than everything.
inline float largestOf(const float *x, uint32_t size) {
  Lanes largest = splat(-__builtin_inff());
  uint32_t i = 0;
  for (; i + kLanes <= size; i += kLanes)
    largest = larger(load(x + i), largest);
  float result = largestLane(largest);
  for (; i < size; ++i)
    result = x[i] > result ? x[i] : result;
  return result;
}

void softmax(const float *x, uint32_t size, float *p) {
  Lanes largest = splat(largestOf(x, size));
  Lanes sums = zeroLanes();
  forLanes(size, [&](uint64_t i, uint32_t count) {
    Lanes powers = exponential(subtract(loadUpTo(x + i, count), largest));
    storeUpTo(p + i, powers, count);
    sums = add(sums, loadUpTo(p + i, count));
  });
  Lanes sum = splat(treeSum(sums));
  forLanes(size, [&](uint64_t i, uint32_t count) {
    storeUpTo(p + i, divide(loadUpTo(p + i, count), sum), count);
  });
}

void sigmoid(const float *x, uint32_t size, float *p) {
  forLanes(size, [&](uint64_t i, uint32_t count) {
    storeUpTo(p + i, divide(splat(1.0f), sigmoidDivisor(loadUpTo(x + i, count))), count);
  });
}

} // namespace
} // namespace moert
