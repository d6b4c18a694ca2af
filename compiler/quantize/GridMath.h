// Arithmetic of a grid, shared by all quantizers. Small pure functions.
#pragma once

#include "compiler/quantize/GridMatrix.h"
#include "runtime/base/HalfFloat.h"
#include "runtime/format/CodeLevels.h"

#include <cmath>

namespace moec {

constexpr float kLargestF16 = 65504;

/// 2^(bits-1): the code of q = 0.
constexpr int32_t zeroCodeOf(const Grid &grid) {
  return 1 << (grid.bits - 1);
}

/// q of a code.
constexpr int32_t qOf(const Grid &grid, uint32_t code) {
  return grid.hasLevels ? moert::kLevelTables.levels[grid.bits - 2][0].of[code] - moert::kLevelZero
                        : int32_t(code) - zeroCodeOf(grid);
}

/// Range of q. 8 bits without offsets leave -128 unused, which keeps the kernels'
/// sums of pairs within 16 bits.
struct CodeRange {
  float low, high;
};
constexpr CodeRange codeRangeOf(const Grid &grid) {
  if (grid.hasLevels)
    return {float(qOf(grid, 0)), float(qOf(grid, (1u << grid.bits) - 1))};
  const int32_t zero = zeroCodeOf(grid);
  const bool isSymmetric8 = grid.bits == 8 && !grid.hasOffsets;
  return {float(isSymmetric8 ? -127 : -zero), float(zero - 1)};
}

/// Rounds to nearest even without a call or a rounding instruction: at 1.5 * 2^23 the spacing of
/// f32 is 1. Valid for magnitudes below 2^22.
constexpr float kRoundingMagic = 12582912.0f;
inline float roundToEven(float value) {
  return (value + kRoundingMagic) - kRoundingMagic;
}

/// The code whose q is nearest to `value`, of two the one of the even integer, with levels the
/// lower.
inline uint8_t nearestCodeOf(const Grid &grid, float value) {
  if (grid.hasLevels) {
    uint32_t code = 0;
    while (code + 1 < 1u << grid.bits &&
           value > 0.5f * float(qOf(grid, code) + qOf(grid, code + 1)))
      ++code;
    return uint8_t(code);
  }
  const CodeRange range = codeRangeOf(grid);
  const float q = value < range.low ? range.low : value;
  return uint8_t(int32_t(roundToEven(q > range.high ? range.high : q)) + zeroCodeOf(grid));
}

/// Scale and offset of one group of one row, f16.
struct GroupScale {
  uint16_t scaleBits = 0;
  uint16_t offsetBits = 0;
};

/// The largest byte of a scale, and the largest one that rounding to nearest gives a row: searched
/// scales may be larger.
constexpr int32_t kLargestByteScale = 127, kLargestNearestByte = 112;

/// bf16 bits of the scale of a row whose groups need scales of up to this magnitude.
inline uint16_t rowScaleOf(float largest) {
  return moert::f32ToBf16(largest / float(kLargestNearestByte));
}

/// The byte of a group's scale of rounding to nearest; it does not round to 0, which would lose the
/// group.
int32_t nearestByteOf(float scale, float rowScale);

/// The scale of the group at `place` in row `row`.
inline float scaleAt(const GridMatrix &matrix, size_t row, size_t place) {
  return matrix.grid.hasByteScales
             ? moert::bf16ToF32(matrix.rowScales[row]) * float(int16_t(matrix.scales[place]))
             : moert::f16ToF32(matrix.scales[place]);
}

/// The scale of rounding to nearest on a grid without offsets, before it is rounded to what is
/// stored.
float exactNearestScaleOf(float low, float high, const Grid &grid);

/// The scale and offset of rounding to nearest (QuantizeNearest.h) for a group of values from low
/// to high. Infinite if beyond the range of f16.
GroupScale nearestScaleOf(float low, float high, const Grid &grid);

/// The nearest f16, as f32; the largest one instead of an infinity.
inline float saturateToF16(float value) {
  const float limited =
      value > kLargestF16 ? kLargestF16 : (value < -kLargestF16 ? -kLargestF16 : value);
  return moert::f16ToF32(moert::f32ToF16(limited));
}

} // namespace moec
