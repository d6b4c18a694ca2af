// The code of LaneKernels.h, included once by each file that is compiled for an instruction set.
// Everything is in an unnamed namespace, and no template or inline function of a library is used:
// the linker might keep a copy of it that an older processor cannot execute.
#pragma once

#include "compiler/quantize/LaneKernels.h"
#include "runtime/format/CodeLevels.h"

namespace moec {
namespace {

typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t IntLanes __attribute__((vector_size(64)));
typedef uint8_t ByteLanes __attribute__((vector_size(16)));

// Vectors are passed by reference: by value their ABI would depend on the instruction set.
inline void load(const float *from, Lanes &to) {
  __builtin_memcpy(&to, from, sizeof(to));
}
inline void store(const Lanes &from, float *to) {
  __builtin_memcpy(to, &from, sizeof(from));
}

/// The range of a grid's codes, as LaneKernels needs it.
struct Range {
  float low, high, zero;
  // The number of levels of non-linear codes, or 0; from the second on, by how much the level
  // rises, and where the previous one ends.
  uint32_t levels;
  float rise[16], begin[16];
};
inline Range rangeOf(const Grid &grid) {
  const float zero = float(1 << (grid.bits - 1));
  Range range = {grid.bits == 8 && !grid.hasOffsets ? -127.0f : -zero, zero - 1, zero, 0, {}, {}};
  if (!grid.hasLevels)
    return range;
  const uint8_t *levels = moert::kLevelTables.levels[grid.bits - 2][0].of;
  range.levels = 1u << grid.bits;
  range.low = float(levels[0]) - float(moert::kLevelZero);
  range.high = range.low;
  for (uint32_t i = 1; i < range.levels; ++i) {
    range.rise[i] = float(levels[i]) - float(levels[i - 1]);
    range.begin[i] = range.high + 0.5f * range.rise[i];
    range.high += range.rise[i];
  }
  return range;
}

/// q of values, as integers. The caller passes a divisor of 1 in place of a scale of 0.
inline void quantize(const Lanes &values, const Lanes &divisor, const Lanes &offset,
                     const Range &range, Lanes &q) {
  constexpr float kMagic = 12582912.0f; // 1.5 * 2^23: f32's spacing there is 1.
  q = (values - offset) / divisor;
  if (range.levels > 0) {
    const Lanes x = q;
    q = Lanes{} + range.low;
    for (uint32_t i = 1; i < range.levels; ++i)
      q += x > range.begin[i] ? Lanes{} + range.rise[i] : Lanes{};
    return;
  }
  q = q < range.low ? Lanes{} + range.low : q;
  q = q > range.high ? Lanes{} + range.high : q;
  q = (q + kMagic) - kMagic;
}

/// Stores the codes of q.
inline void storeCodes(const Lanes &q, const Range &range, uint8_t *codes) {
  Lanes code = q + range.zero;
  if (range.levels > 0) {
    code = Lanes{};
    for (uint32_t i = 1; i < range.levels; ++i)
      code += q > range.begin[i] ? Lanes{} + 1.0f : Lanes{};
  }
  const ByteLanes bytes =
      __builtin_convertvector(__builtin_convertvector(code, IntLanes), ByteLanes);
  __builtin_memcpy(codes, &bytes, sizeof(bytes));
}

inline void loadCodes(const uint8_t *codes, const Range &range, Lanes &q) {
  ByteLanes bytes;
  __builtin_memcpy(&bytes, codes, sizeof(bytes));
  const Lanes code = __builtin_convertvector(__builtin_convertvector(bytes, IntLanes), Lanes);
  q = code - range.zero;
  if (range.levels > 0) {
    q = Lanes{} + range.low;
    for (uint32_t i = 1; i < range.levels; ++i)
      q += code > float(i) - 0.5f ? Lanes{} + range.rise[i] : Lanes{};
  }
}

/// The nearest f16, as f32; the largest f16 beyond its range.
inline void toF16(Lanes &x) {
  const IntLanes bits = (IntLanes)x;
  const IntLanes sign = bits & int32_t(0x80000000u);
  const IntLanes magnitude = bits & 0x7fffffff;
  const IntLanes normal = (magnitude + 0xfff + (magnitude >> 13 & 1)) & ~0x1fff;
  const Lanes shifted = ((Lanes)magnitude + 0.5f) - 0.5f; // Below 2^-14 a multiple of 2^-24.
  IntLanes rounded = magnitude < 0x38800000 ? (IntLanes)shifted : normal;
  rounded = rounded > 0x477fe000 ? IntLanes{} + 0x477fe000 : rounded; // 65504.
  x = (Lanes)(rounded | sign);
}

/// The nearest scale that can be stored: a byte times the row's scale, or f16.
inline void toStored(const float *rowScales, Lanes &scale) {
  constexpr float kMagic = 12582912.0f, kLargest = 127;
  if (!rowScales) {
    toF16(scale);
    return;
  }
  Lanes row;
  load(rowScales, row);
  const IntLanes isFlat = row == 0.0f;
  Lanes byte = scale / (isFlat ? Lanes{} + 1.0f : row);
  byte = byte < -kLargest ? Lanes{} - kLargest : byte;
  byte = byte > kLargest ? Lanes{} + kLargest : byte;
  byte = (byte + kMagic) - kMagic;
  scale = isFlat ? Lanes{} : byte * row;
}

/// The result of one pass over a group for a candidate.
struct Fit {
  Lanes error, q, qq, qw; // Weighted sums of (w - value)^2, q, q^2, q * w.
};

inline void fitOf(const LaneGroup &group, const Lanes &scale, const Lanes &offset,
                  const Range &range, Fit &fit) {
  const Lanes divisor = scale == 0.0f ? Lanes{} + 1.0f : scale;
  Lanes error = {}, sumQ = {}, sumQQ = {}, sumQW = {};
  for (uint32_t i = 0; i < group.count; ++i) {
    const float importance = group.importance ? group.importance[i] : 1.0f;
    Lanes w, q;
    load(group.values + size_t(i) * kLanes, w);
    quantize(w, divisor, offset, range, q);
    const Lanes difference = w - (q * scale + offset);
    const Lanes weightedQ = q * importance;
    error += difference * difference * importance;
    sumQ += weightedQ;
    sumQQ += weightedQ * q;
    sumQW += weightedQ * w;
  }
  fit = {error, sumQ, sumQQ, sumQW};
}

struct Best {
  Lanes scale, offset, error;
};

inline void keepBetter(const Lanes &scale, const Lanes &offset, const Fit &fit, Best &best) {
  const IntLanes isBetter = fit.error < best.error;
  best.scale = isBetter ? scale : best.scale;
  best.offset = isBetter ? offset : best.offset;
  best.error = isBetter ? fit.error : best.error;
}

/// Tries scales from a fraction of the extreme value's scale to a little more, of both signs, each
/// followed by the least-squares scale of its codes.
void searchSymmetric(const LaneGroup &group, const Range &range, const Lanes &start, Best &best) {
  constexpr uint32_t kSteps = 24;
  const float from = group.grid.bits <= 3 ? 0.35f : 0.6f;
  const float to = group.grid.bits <= 3 ? 1.25f : 1.1f;
  const Lanes none = {};
  Fit fit;
  for (int sign = 1; sign >= -1; sign -= 2) {
    for (uint32_t step = 0; step < kSteps; ++step) {
      const float part = from + (to - from) * float(step) / float(kSteps - 1);
      Lanes scale = start * (part * float(sign));
      toStored(group.rowScales, scale);
      fitOf(group, scale, none, range, fit);
      keepBetter(scale, none, fit, best);
      scale = fit.qq > 0.0f ? fit.qw / (fit.qq > 0.0f ? fit.qq : none + 1.0f) : scale;
      toStored(group.rowScales, scale);
      fitOf(group, scale, none, range, fit);
      keepBetter(scale, none, fit, best);
    }
    if (range.low == -range.high)
      return; // The range of codes is symmetric.
  }
}

/// Tries ranges from a fraction of the values' range to a little more, clipped above, below or on
/// both sides, each followed twice by the least-squares scale and offset of its codes.
void searchOffsets(const LaneGroup &group, const Range &range, Best &best) {
  const uint32_t steps = group.grid.bits <= 3 ? 10 : 8;
  const float from = group.grid.bits <= 3 ? 0.4f : 0.7f, to = 1.05f;
  Lanes low, high, sumW = {};
  float total = 0;
  load(group.values, low);
  high = low;
  for (uint32_t i = 0; i < group.count; ++i) {
    const float importance = group.importance ? group.importance[i] : 1.0f;
    Lanes w;
    load(group.values + size_t(i) * kLanes, w);
    low = w < low ? w : low;
    high = w > high ? w : high;
    sumW += w * importance;
    total += importance;
  }
  if (!(total > 0))
    return;
  const Lanes extent = high * 0.5f - low * 0.5f; // Half of it: the whole range may overflow.
  const Lanes meanW = sumW / total;
  for (uint32_t step = 0; step < steps; ++step)
    for (uint32_t cut = 0; cut < 3; ++cut) {
      const float part = from + (to - from) * float(step) / float(steps - 1);
      Lanes scale = extent * (part / (range.high - range.low) * 2);
      toF16(scale);
      Lanes offset = (low + extent * (float(cut) * (1 - part))) + scale * range.zero;
      toF16(offset);
      for (uint32_t refinement = 0;; ++refinement) {
        Fit fit;
        fitOf(group, scale, offset, range, fit);
        keepBetter(scale, offset, fit, best);
        if (refinement == 2)
          break;
        const Lanes meanQ = fit.q / total;
        const Lanes variance = fit.qq - meanQ * fit.q;
        const IntLanes isSpread = variance > fit.qq * 1e-6f;
        scale = isSpread ? (fit.qw - meanQ * sumW) / (isSpread ? variance : Lanes{} + 1.0f) : scale;
        toF16(scale);
        offset = meanW - scale * meanQ;
        toF16(offset);
      }
    }
}

void searchScales(const LaneGroup &group, float *scales, float *offsets) {
  const Range range = rangeOf(group.grid);
  Best best;
  load(scales, best.scale);
  load(offsets, best.offset);
  Fit fit;
  fitOf(group, best.scale, best.offset, range, fit);
  best.error = fit.error;
  const Lanes start = best.scale;
  if (group.grid.hasOffsets)
    searchOffsets(group, range, best);
  else
    searchSymmetric(group, range, start, best);
  store(best.scale, scales);
  store(best.offset, offsets);
}

void round(const LaneRounding &rounding) {
  const Range range = rangeOf(rounding.grid);
  Lanes scale, offset;
  load(rounding.scales, scale);
  load(rounding.offsets, offset);
  const IntLanes isFlat = scale == 0.0f;
  const Lanes divisor = isFlat ? Lanes{} + 1.0f : scale;
  for (uint32_t j = 0; j < rounding.count; ++j) {
    Lanes value, q;
    load(rounding.values + size_t(j) * kLanes, value);
    quantize(value, divisor, offset, range, q);
    q = isFlat ? Lanes{} : q;
    storeCodes(q, range, rounding.codes + size_t(j) * kLanes);
    if (!rounding.feedback)
      continue;
    Lanes weight;
    load(rounding.weights + size_t(j) * kLanes, weight);
    const Lanes difference = weight - (q * scale + offset);
    store(difference, rounding.differences + size_t(j) * kLanes);
    for (uint32_t k = j + 1; k < rounding.count; ++k) {
      Lanes later;
      load(rounding.values + size_t(k) * kLanes, later);
      later += difference * rounding.feedback[k * rounding.feedbackStride + j];
      store(later, rounding.values + size_t(k) * kLanes);
    }
  }
}

/// Moves the scales to the least error; differences and gradient follow.
inline void fitScales(const LaneRefinement &run, const Range &range, Lanes &scale,
                      const Lanes &offset) {
  Lanes q[kRefinedColumns], steps[kRefinedColumns]; // steps: H q.
  Lanes along = {}, curvature = {};
  for (uint32_t j = 0; j < run.count; ++j)
    loadCodes(run.codes + size_t(j) * kLanes, range, q[j]);
  for (uint32_t j = 0; j < run.count; ++j) {
    Lanes sum = {}, gradient;
    for (uint32_t k = 0; k < run.count; ++k)
      sum += q[k] * run.moments[j * run.momentsStride + k];
    steps[j] = sum;
    load(run.gradient + size_t(j) * kLanes, gradient);
    along += q[j] * gradient;
    curvature += q[j] * sum;
  }
  const IntLanes isCurved = curvature > 0.0f;
  Lanes fitted = scale + along / (isCurved ? curvature : Lanes{} + 1.0f);
  fitted = isCurved ? fitted : scale;
  toStored(run.rowScales, fitted);
  const Lanes change = fitted - scale;
  scale = fitted;
  for (uint32_t j = 0; j < run.count; ++j) {
    Lanes gradient, weight;
    load(run.gradient + size_t(j) * kLanes, gradient);
    load(run.weights + size_t(j) * kLanes, weight);
    store(gradient - change * steps[j], run.gradient + size_t(j) * kLanes);
    store(weight - (q[j] * scale + offset), run.differences + size_t(j) * kLanes);
  }
}

void refine(const LaneRefinement &run) {
  const Range range = rangeOf(run.grid);
  Lanes scale, offset;
  load(run.scales, scale);
  load(run.offsets, offset);
  if (run.fitsScales)
    fitScales(run, range, scale, offset);
  const IntLanes isFlat = scale == 0.0f;
  const Lanes divisor = isFlat ? Lanes{} + 1.0f : scale;
  for (uint32_t j = 0; j < run.count; ++j) {
    Lanes weight, before, gradient, q;
    load(run.weights + size_t(j) * kLanes, weight);
    load(run.differences + size_t(j) * kLanes, before);
    load(run.gradient + size_t(j) * kLanes, gradient);
    const float curvature = run.moments[j * run.momentsStride + j];
    quantize((weight - before) + gradient / curvature, divisor, offset, range, q);
    q = isFlat ? Lanes{} : q;
    storeCodes(q, range, run.codes + size_t(j) * kLanes);
    const Lanes difference = weight - (q * scale + offset);
    store(difference, run.differences + size_t(j) * kLanes);
    const Lanes change = difference - before;
    for (uint32_t k = j + 1; k < run.count; ++k) {
      Lanes later;
      load(run.gradient + size_t(k) * kLanes, later);
      later += change * run.moments[k * run.momentsStride + j];
      store(later, run.gradient + size_t(k) * kLanes);
    }
  }
  store(scale, run.scales);
}

/// Four terms at a time, so that a row is not loaded and stored for each.
void subtractProducts(double *row, uint64_t count, const double *factors, uint32_t terms,
                      const double *others, uint64_t othersStride) {
  uint32_t t = 0;
  for (; t + 4 <= terms; t += 4) {
    const double a = factors[t], b = factors[t + 1], c = factors[t + 2], d = factors[t + 3];
    const double *__restrict first = others + t * othersStride;
    const double *__restrict second = first + othersStride;
    const double *__restrict third = second + othersStride;
    const double *__restrict fourth = third + othersStride;
    double *__restrict out = row;
    for (uint64_t i = 0; i < count; ++i)
      out[i] = (((out[i] - a * first[i]) - b * second[i]) - c * third[i]) - d * fourth[i];
  }
  for (; t < terms; ++t) {
    const double factor = factors[t];
    const double *__restrict other = others + t * othersStride;
    double *__restrict out = row;
    for (uint64_t i = 0; i < count; ++i)
      out[i] -= factor * other[i];
  }
}

} // namespace
} // namespace moec
