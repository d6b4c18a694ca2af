// The quantizers that use the distribution of the values, or also the magnitude of each input.
#include "compiler/quantize/GridMath.h"
#include "compiler/quantize/PanelGrid.h"
#include "compiler/quantize/PanelProduct.h"
#include "compiler/quantize/Quantize.h"
#include "compiler/quantize/QuantizeNearest.h"

#include <algorithm>
#include <cassert>

using namespace moert;

namespace moec {

Result<GridMatrix> quantizePerChannel(const MatrixShape &shape, uint32_t bits,
                                      std::span<const float> rows) {
  const Grid grid = {bits, shape.cols, false};
  MOERT_ASSIGN_OR_RETURN(GridMatrix matrix, quantizeNearest(shape, grid, rows));
  const float steps = float(zeroCodeOf(grid) - 1);
  for (uint32_t row = 0; row < shape.rows; ++row) {
    const auto values = rows.subspan(size_t(row) * shape.cols, shape.cols);
    float largest = 0;
    for (float value : values)
      largest = std::max(largest, std::fabs(value));
    // The largest magnitude stays within half a step of the last code after rounding to f16, except
    // among f16's subnormal numbers, where it is clipped.
    const float scale = saturateToF16(largest / steps);
    matrix.scales[row] = f32ToF16(scale);
    for (size_t col = 0; col < shape.cols; ++col) {
      const float q = scale == 0 ? 0 : std::clamp(values[col] / scale, -steps, steps);
      matrix.codes[size_t(row) * shape.cols + col] =
          uint8_t(int32_t(roundToEven(q)) + zeroCodeOf(grid));
    }
  }
  return matrix;
}

Result<GridMatrix> quantizeClipped(const MatrixShape &shape, const Grid &grid,
                                   std::span<const float> rows, std::span<const float> importance,
                                   Isa isa) {
  assert(importance.empty() || importance.size() == shape.cols);
  MOERT_ASSIGN_OR_RETURN(GridMatrix matrix, quantizeNearest(shape, grid, rows));
  const LaneKernels &lanes = laneKernelsFor(isa);
  AlignedFloats panel(size_t(shape.cols) * kLanes), scales(kLanes), offsets(kLanes);
  AlignedFloats rowScales(kLanes);
  std::vector<uint8_t> codes(size_t(shape.cols) * kLanes);
  for (uint32_t row = 0; row < shape.rows; row += kLanes) {
    fillPanel(shape, rows, row, panel.data());
    const float *const ofRows = loadRowScales(matrix, row, rowScales.data());
    for (uint32_t group = 0; group < matrix.groupsPerRow(); ++group) {
      const uint32_t begin = group * grid.group, count = std::min(grid.group, shape.cols - begin);
      float *values = panel.data() + size_t(begin) * kLanes;
      nearestScales(values, count, grid, ofRows, scales.data(), offsets.data());
      lanes.searchScales(
          {values, count, importance.empty() ? nullptr : &importance[begin], grid, ofRows},
          scales.data(), offsets.data());
      lanes.round({.values = values,
                   .count = count,
                   .grid = grid,
                   .scales = scales.data(),
                   .offsets = offsets.data(),
                   .codes = codes.data(),
                   .weights = nullptr,
                   .differences = nullptr,
                   .feedback = nullptr,
                   .feedbackStride = 0});
      storeScales(matrix, row, group, scales.data(), offsets.data());
      storeCodes(matrix, row, begin, count, codes.data());
    }
  }
  return matrix;
}

void dequantize(const GridMatrix &matrix, std::span<float> out) {
  assert(out.size() == matrix.codes.size());
  const uint32_t cols = matrix.shape.cols, groups = matrix.groupsPerRow();
  for (size_t row = 0; row < matrix.shape.rows; ++row)
    for (size_t group = 0; group < groups; ++group) {
      const size_t place = row * groups + group;
      const float scale = scaleAt(matrix, row, place);
      const float offset = matrix.grid.hasOffsets ? f16ToF32(matrix.offsets[place]) : 0;
      const size_t end = std::min<size_t>((group + 1) * matrix.grid.group, cols);
      for (size_t col = group * matrix.grid.group; col < end; ++col)
        out[row * cols + col] =
            scale * float(qOf(matrix.grid, matrix.codes[row * cols + col])) + offset;
    }
}

} // namespace moec
