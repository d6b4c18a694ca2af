#include "compiler/quantize/QuantizeNearest.h"

#include "compiler/import/StoredType.h"
#include "compiler/quantize/HalfFloat.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace moert;

namespace moec {

namespace {

/// Scale and offset of one group of one row, f16.
struct GroupScale {
  uint16_t scaleBits = 0;
  uint16_t offsetBits = 0;
};

struct CodeRange {
  int32_t low, high;
};

constexpr float kLargestF16 = 65504;

} // namespace

static bool isAllFinite(std::span<const float> values) {
  uint32_t found = 0;
  for (float value : values)
    found |= uint32_t((std::bit_cast<uint32_t>(value) & 0x7f800000u) == 0x7f800000u);
  return found == 0;
}

Status checkFinite(const MatrixShape &shape, uint32_t firstRow, std::span<const float> rows) {
  if (isAllFinite(rows))
    return {};
  for (size_t i = 0; i < rows.size(); ++i)
    if (!std::isfinite(rows[i]))
      return invalidInput("the value in row ", firstRow + i / shape.cols, ", column ",
                          i % shape.cols, " is ", rows[i], ", expected a finite number");
  return {};
}

static bool isSymmetric8(const Grid &grid) {
  return grid.bits == 8 && !grid.hasOffsets;
}

// Codes are offset binary, so their lowest is 0; 8 bits leave it unused when symmetric, which keeps
// the kernels' sums of pairs within 16 bits.
static CodeRange codeRangeOf(const Grid &grid) {
  int32_t half = 1 << (grid.bits - 1);
  return {isSymmetric8(grid) ? -127 : -half, half - 1};
}

// The f16 nearest to scale; the next larger one where rounding down would cut off the largest code
// by more than half a step, which only f16's subnormal numbers can do.
static uint16_t roundScale(float scale, float largest, float largestCode) {
  uint16_t bits = f32ToF16(scale);
  if (largest > (largestCode + 0.5f) * std::fabs(f16ToF32(bits)))
    ++bits;
  return bits;
}

static Result<GroupScale> scaleOf(std::span<const float> group, const Grid &grid) {
  float low = group[0], high = group[0];
  for (float value : group) {
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  GroupScale result;
  if (low == 0 && high == 0)
    return result;
  if (grid.hasOffsets) {
    // Halves first: max - min itself may overflow.
    float halfRange = high * 0.5f - low * 0.5f;
    float steps = float((1 << grid.bits) - 1);
    result.scaleBits = roundScale(halfRange / steps * 2, halfRange * 2, steps);
    float offset = (low * 0.5f + high * 0.5f) + f16ToF32(result.scaleBits) * 0.5f;
    result.offsetBits = f32ToF16(result.scaleBits == 0 ? low : offset);
  } else {
    float extreme = -low >= high ? low : high;
    float codes = isSymmetric8(grid) ? 127 : float(codeRangeOf(grid).low);
    float scale = isSymmetric8(grid) ? std::fabs(extreme) / codes : extreme / codes;
    result.scaleBits = roundScale(scale, std::fabs(extreme), std::fabs(codes));
  }
  if (!(std::fabs(f16ToF32(result.scaleBits)) <= kLargestF16) ||
      !(std::fabs(f16ToF32(result.offsetBits)) <= kLargestF16))
    return invalidInput("values from ", low, " to ", high, " need a scale beyond f16's ",
                        kLargestF16);
  return result;
}

// Rounds to nearest even without a call or a rounding instruction: at 1.5 * 2^23 the spacing of f32
// is 1. Valid for magnitudes below 2^22.
static float roundToEven(float value) {
  constexpr float kMagic = 12582912.0f;
  return (value + kMagic) - kMagic;
}

// Offset binary codes of a group. A scale of 0 stands for a group of equal values.
static void quantizeGroup(std::span<const float> group, const GroupScale &scales, const Grid &grid,
                          uint8_t *codes) {
  float scale = f16ToF32(scales.scaleBits), offset = f16ToF32(scales.offsetBits);
  CodeRange range = codeRangeOf(grid);
  float low = float(range.low), high = float(range.high);
  int32_t zero = 1 << (grid.bits - 1);
  if (scale == 0) {
    std::fill_n(codes, group.size(), uint8_t(zero));
    return;
  }
  for (size_t i = 0; i < group.size(); ++i) {
    float q = (group[i] - offset) / scale;
    q = q < low ? low : q;
    q = q > high ? high : q;
    codes[i] = uint8_t(int32_t(roundToEven(q)) + zero);
  }
}

Result<GridMatrix> quantizeNearest(const MatrixShape &shape, const Grid &grid,
                                   std::span<const float> rows, uint32_t firstRow) {
  assert(grid.bits >= 2 && grid.bits <= 8 && grid.group > 0 &&
         rows.size() == size_t(shape.rows) * shape.cols);
  MOERT_RETURN_IF_ERROR(checkFinite(shape, firstRow, rows));
  GridMatrix matrix = {shape, grid, {}, {}, {}};
  const uint32_t groups = matrix.groupsPerRow();
  matrix.codes.resize(rows.size());
  matrix.scales.resize(size_t(shape.rows) * groups);
  matrix.offsets.resize(grid.hasOffsets ? matrix.scales.size() : 0);
  for (uint32_t row = 0; row < shape.rows; ++row)
    for (uint32_t group = 0; group < groups; ++group) {
      const size_t column = size_t(group) * grid.group, begin = size_t(row) * shape.cols + column;
      std::span<const float> values =
          rows.subspan(begin, std::min<size_t>(grid.group, shape.cols - column));
      auto scales = scaleOf(values, grid);
      if (!scales.isOk())
        return scales.status().withContext(strCat("row ", firstRow + row));
      quantizeGroup(values, *scales, grid, matrix.codes.data() + begin);
      matrix.scales[size_t(row) * groups + group] = scales->scaleBits;
      if (grid.hasOffsets)
        matrix.offsets[size_t(row) * groups + group] = scales->offsetBits;
    }
  return matrix;
}

} // namespace moec
