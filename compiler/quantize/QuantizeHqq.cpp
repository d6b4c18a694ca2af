// Half-quadratic quantization, one row and group after the other.
#include "compiler/quantize/GridMath.h"
#include "compiler/quantize/Quantize.h"
#include "compiler/quantize/QuantizeNearest.h"
#include "runtime/base/DeterministicMath.h"

#include <algorithm>
#include <cassert>

using namespace moert;

namespace moec {

// The authors' values.
static constexpr float kNorm = 0.7f, kBeta = 10, kKappa = 1.01f;
static constexpr uint32_t kIterations = 20;

// The proximal step of |e|^p: the part of an error treated as an outlier. It is 0 below
// (1/beta)^(1/(2-p)): with beta from 10 on, below 0.14, which saves pow() for nearly all weights.
static float shrink(float error, float beta) {
  constexpr float kSurelyNothing = 0.14f;
  const float magnitude = std::fabs(error);
  if (magnitude < kSurelyNothing)
    return 0;
  const float power = float(deterministicPow(double(magnitude), double(kNorm) - 1));
  const float rest = std::max(0.0f, magnitude - power / beta);
  return error < 0 ? -rest : rest;
}

// The offset with a small p-norm of the errors, for a fixed scale. Stops, like the authors' code,
// when the mean magnitude of the errors no longer falls; returns the best offset found.
static float solveOffset(std::span<const float> values, float scale, float offset,
                         const Grid &grid) {
  const CodeRange range = codeRangeOf(grid);
  float best = offset, bestError = 0, beta = kBeta;
  for (uint32_t iteration = 0; iteration < kIterations; ++iteration) {
    float error = 0, sum = 0;
    for (float value : values) {
      const float q = roundToEven(std::clamp((value - offset) / scale, range.low, range.high));
      const float rest = value - (q * scale + offset);
      error += std::fabs(rest);
      sum += (value - shrink(rest, beta)) - q * scale;
    }
    if (iteration > 0 && !(error < bestError))
      break;
    best = offset;
    bestError = error;
    offset = saturateToF16(sum / float(values.size()));
    beta *= kKappa;
  }
  return best;
}

Result<GridMatrix> quantizeHqq(const MatrixShape &shape, const Grid &grid,
                               std::span<const float> rows) {
  if (!grid.hasOffsets)
    return invalidInput("half-quadratic quantization needs a grid with offsets; the grid of ",
                        grid.bits, " bits has none");
  MOERT_ASSIGN_OR_RETURN(GridMatrix matrix, quantizeNearest(shape, grid, rows));
  const CodeRange range = codeRangeOf(grid);
  for (uint32_t row = 0; row < shape.rows; ++row)
    for (uint32_t group = 0; group < matrix.groupsPerRow(); ++group) {
      const size_t begin = size_t(row) * shape.cols + size_t(group) * grid.group;
      const auto values =
          rows.subspan(begin, std::min(grid.group, shape.cols - group * grid.group));
      const size_t place = size_t(row) * matrix.groupsPerRow() + group;
      const float scale = f16ToF32(matrix.scales[place]);
      if (scale == 0)
        continue;
      const float offset = solveOffset(values, scale, f16ToF32(matrix.offsets[place]), grid);
      matrix.offsets[place] = f32ToF16(offset);
      for (size_t i = 0; i < values.size(); ++i) {
        const float q = std::clamp((values[i] - offset) / scale, range.low, range.high);
        matrix.codes[begin + i] = uint8_t(int32_t(roundToEven(q)) + zeroCodeOf(grid));
      }
    }
  return matrix;
}

} // namespace moec
