#include "compiler/quantize/PanelGrid.h"

#include "compiler/quantize/GridMath.h"
#include "compiler/quantize/LaneKernels.h"

#include <algorithm>

using namespace moert;

namespace moec {

const float *loadRowScales(const GridMatrix &matrix, uint32_t firstRow, float *rowScales) {
  if (!matrix.grid.hasByteScales)
    return nullptr;
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    rowScales[lane] =
        firstRow + lane < matrix.shape.rows ? bf16ToF32(matrix.rowScales[firstRow + lane]) : 0;
  return rowScales;
}

void nearestScales(const float *values, uint32_t count, const Grid &grid, const float *rowScales,
                   float *scales, float *offsets) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    float low = values[lane], high = values[lane];
    for (size_t i = 1; i < count; ++i) {
      const float value = values[i * kLanes + lane];
      low = value < low ? value : low;
      high = value > high ? value : high;
    }
    if (rowScales) {
      const float exact = low == 0 && high == 0 ? 0 : exactNearestScaleOf(low, high, grid);
      scales[lane] = rowScales[lane] * float(nearestByteOf(exact, rowScales[lane]));
      offsets[lane] = 0;
      continue;
    }
    const GroupScale nearest = nearestScaleOf(low, high, grid);
    scales[lane] = saturateToF16(f16ToF32(nearest.scaleBits));
    offsets[lane] = saturateToF16(f16ToF32(nearest.offsetBits));
  }
}

void storeScales(GridMatrix &matrix, uint32_t firstRow, uint32_t group, const float *scales,
                 const float *offsets) {
  const uint32_t lanes = std::min(kLanes, matrix.shape.rows - firstRow);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    const size_t place = size_t(firstRow + lane) * matrix.groupsPerRow() + group;
    const float rowScale =
        matrix.grid.hasByteScales ? bf16ToF32(matrix.rowScales[firstRow + lane]) : 0;
    matrix.scales[place] = matrix.grid.hasByteScales
                               ? uint16_t(int16_t(rowScale == 0 ? 0 : scales[lane] / rowScale))
                               : f32ToF16(scales[lane]);
    if (matrix.grid.hasOffsets)
      matrix.offsets[place] = f32ToF16(offsets[lane]);
  }
}

void loadScales(const GridMatrix &matrix, uint32_t firstRow, uint32_t group, float *scales,
                float *offsets) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const bool isRow = firstRow + lane < matrix.shape.rows;
    const size_t place = size_t(firstRow + lane) * matrix.groupsPerRow() + group;
    scales[lane] = isRow ? scaleAt(matrix, firstRow + lane, place) : 0;
    offsets[lane] = isRow && matrix.grid.hasOffsets ? f16ToF32(matrix.offsets[place]) : 0;
  }
}

void storeCodes(GridMatrix &matrix, uint32_t firstRow, uint32_t firstCol, uint32_t count,
                const uint8_t *codes) {
  const uint32_t lanes = std::min(kLanes, matrix.shape.rows - firstRow);
  for (uint32_t lane = 0; lane < lanes; ++lane) {
    uint8_t *row = &matrix.codes[size_t(firstRow + lane) * matrix.shape.cols + firstCol];
    for (size_t i = 0; i < count; ++i)
      row[i] = codes[i * kLanes + lane];
  }
}

} // namespace moec
