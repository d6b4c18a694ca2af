#include "compiler/quantize/QuantizeNearest.h"

#include "compiler/quantize/GridMath.h"

#include <algorithm>
#include <cassert>
#include <cmath>

using namespace moert;

namespace moec {

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

/// The smallest and the largest of some values.
struct Extent {
  float low, high;
};

static Extent extentOf(std::span<const float> values) {
  Extent extent = {values[0], values[0]};
  for (float value : values) {
    extent.low = value < extent.low ? value : extent.low;
    extent.high = value > extent.high ? value : extent.high;
  }
  return extent;
}

static Result<GroupScale> scaleOf(std::span<const float> group, const Grid &grid) {
  const auto [low, high] = extentOf(group);
  const GroupScale result = nearestScaleOf(low, high, grid);
  if (!(std::fabs(f16ToF32(result.scaleBits)) <= kLargestF16) ||
      !(std::fabs(f16ToF32(result.offsetBits)) <= kLargestF16))
    return invalidInput("values from ", low, " to ", high, " need a scale beyond f16's ",
                        kLargestF16);
  return result;
}

// Offset binary codes of a group. A scale of 0 means a group of equal values.
static void quantizeGroup(std::span<const float> group, float scale, float offset, const Grid &grid,
                          uint8_t *codes) {
  if (scale == 0) {
    std::fill_n(codes, group.size(), uint8_t(zeroCodeOf(grid)));
    return;
  }
  for (size_t i = 0; i < group.size(); ++i)
    codes[i] = nearestCodeOf(grid, (group[i] - offset) / scale);
}

// The row's scale and its groups' bytes.
static void chooseByteScales(std::span<const float> values, size_t row, GridMatrix &matrix) {
  const uint32_t groups = matrix.groupsPerRow();
  const auto exactScaleOf = [&](uint32_t group) {
    const size_t column = size_t(group) * matrix.grid.group;
    const auto [low, high] = extentOf(
        values.subspan(column, std::min<size_t>(matrix.grid.group, values.size() - column)));
    return low == 0 && high == 0 ? 0.0f : exactNearestScaleOf(low, high, matrix.grid);
  };
  float largest = 0;
  for (uint32_t group = 0; group < groups; ++group)
    largest = std::max(largest, std::fabs(exactScaleOf(group)));
  matrix.rowScales[row] = rowScaleOf(largest);
  const float rowScale = bf16ToF32(matrix.rowScales[row]);
  for (uint32_t group = 0; group < groups; ++group)
    matrix.scales[row * groups + group] =
        uint16_t(int16_t(nearestByteOf(exactScaleOf(group), rowScale)));
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
  matrix.rowScales.resize(grid.hasByteScales ? shape.rows : 0);
  for (uint32_t row = 0; row < shape.rows; ++row) {
    if (grid.hasByteScales)
      chooseByteScales(rows.subspan(size_t(row) * shape.cols, shape.cols), row, matrix);
    for (uint32_t group = 0; group < groups; ++group) {
      const size_t column = size_t(group) * grid.group, begin = size_t(row) * shape.cols + column;
      std::span<const float> values =
          rows.subspan(begin, std::min<size_t>(grid.group, shape.cols - column));
      const size_t place = size_t(row) * groups + group;
      float offset = 0;
      if (!grid.hasByteScales) {
        auto scales = scaleOf(values, grid);
        if (!scales.isOk())
          return scales.status().withContext(strCat("row ", firstRow + row));
        matrix.scales[place] = scales->scaleBits;
        if (grid.hasOffsets)
          matrix.offsets[place] = scales->offsetBits;
        offset = f16ToF32(scales->offsetBits);
      }
      quantizeGroup(values, scaleAt(matrix, row, place), offset, grid, matrix.codes.data() + begin);
    }
  }
  return matrix;
}

} // namespace moec
