#include "compiler/quantize/PackWeights.h"

#include "compiler/quantize/HadamardWeights.h"
#include "compiler/quantize/QuantizeNearest.h"
#include "runtime/base/HalfFloat.h"

#include "runtime/base/CheckedMath.h"

#include <cassert>
#include <cmath>
#include <cstring>

using namespace moert;

namespace moec {

static Status storeFloat(float value, WeightKind kind, std::byte *out) {
  if (kind == WeightKind::kF32) {
    std::memcpy(out, &value, sizeof(value));
    return {};
  }
  uint16_t bits = kind == WeightKind::kF16 ? f32ToF16(value) : f32ToBf16(value);
  float stored = kind == WeightKind::kF16 ? f16ToF32(bits) : bf16ToF32(bits);
  if (!std::isfinite(stored))
    return invalidInput("the value ", value, " is beyond the range of ", nameOf(kind));
  std::memcpy(out, &bits, sizeof(bits));
  return {};
}

static Result<PackedWeights> packFloats(const MatrixShape &shape, const WeightFormat &format,
                                        uint32_t rowCount, std::span<const float> rows) {
  MOERT_ASSIGN_OR_RETURN(MatrixLayout layout, layoutOf(shape, format));
  const size_t elementBytes = bitsOf(format.kind) / 8;
  const size_t lanes = layout.isPanels ? kPanelRows : 1;
  PackedWeights packed;
  packed.codes.resize(roundUp(rowCount, lanes) * shape.cols * elementBytes);
  for (size_t row = 0; row < rowCount; ++row) {
    std::byte *out =
        packed.codes.data() + (row / lanes * lanes * shape.cols + row % lanes) * elementBytes;
    for (size_t col = 0; col < shape.cols; ++col)
      MOERT_RETURN_IF_ERROR(
          storeFloat(rows[row * shape.cols + col], format.kind, out + col * lanes * elementBytes));
  }
  return packed;
}

Result<std::vector<PackedWeights>> packWeights(const MatrixShape &shape,
                                               std::span<const WeightFormat> slices,
                                               uint32_t firstRow, uint32_t rowCount,
                                               std::span<const float> rows) {
  MOERT_RETURN_IF_ERROR(checkMatrixSlices(slices));
  assert(firstRow % kPanelRows == 0 && rowCount <= shape.rows - firstRow &&
         rows.size() == size_t(rowCount) * shape.cols);
  if (isQuantized(slices.front().kind)) {
    std::vector<float> transformed;
    if (slices.front().hasHadamard) {
      MOERT_RETURN_IF_ERROR(
          checkFinite(shape, firstRow, rows)); // Afterwards a block is not finite.
      rows = transformed = hadamardWeights(shape.cols, rows);
    }
    MOERT_ASSIGN_OR_RETURN(GridMatrix matrix,
                           quantizeNearest({rowCount, shape.cols}, gridOf(slices), rows, firstRow));
    return packGrid(matrix, slices);
  }
  if (isKept(slices.front().kind))
    return invalidInput("f32 values, expected codes and scales of ", nameOf(slices.front().kind));
  MOERT_RETURN_IF_ERROR(checkFinite(shape, firstRow, rows));
  std::vector<PackedWeights> packed(1);
  MOERT_ASSIGN_OR_RETURN(packed[0], packFloats(shape, slices.front(), rowCount, rows));
  return packed;
}

static PackedWeights packBlocks(const MatrixShape &shape, const MatrixLayout &layout,
                                size_t blockBytes, std::span<const std::byte> rows) {
  const size_t rowBytes = layout.groupsPerRow * blockBytes;
  assert(rows.size() == shape.rows * rowBytes);
  PackedWeights packed;
  packed.codes.resize(layout.codesBytes);
  for (size_t row = 0; row < shape.rows; ++row) {
    std::byte *out =
        packed.codes.data() + row / kPanelRows * kPanelRows * rowBytes + row % kPanelRows;
    for (size_t i = 0; i < rowBytes; ++i)
      out[i * kPanelRows] = rows[row * rowBytes + i];
  }
  return packed;
}

Result<PackedWeights> packKept(const MatrixShape &shape, WeightKind kind,
                               std::span<const std::byte> rows) {
  MOERT_ASSIGN_OR_RETURN(MatrixLayout layout, layoutOf(shape, floatFormat(kind)));
  if (hasBlocks(kind))
    return packBlocks(shape, layout, blockOf(kind).bytes, rows);
  const size_t codeBytes = shape.cols / 2, rowBytes = codeBytes + layout.groupsPerRow;
  assert(rows.size() == shape.rows * rowBytes);
  PackedWeights packed;
  packed.codes.resize(roundUp(shape.rows, kPanelRows) * codeBytes);
  packed.scales.resize(roundUp(shape.rows, kPanelRows) * layout.groupsPerRow);
  for (size_t row = 0; row < shape.rows; ++row) {
    const std::span<const std::byte> stored = rows.subspan(row * rowBytes, rowBytes);
    const size_t firstOfPanel = row / kPanelRows * kPanelRows, lane = row % kPanelRows;
    for (size_t pair = 0; pair < codeBytes; ++pair)
      packed.codes[firstOfPanel * codeBytes + pair / 4 * kPanelRows * 4 + lane * 4 + pair % 4] =
          stored[pair];
    for (size_t group = 0; group < layout.groupsPerRow; ++group)
      packed.scales[firstOfPanel * layout.groupsPerRow + group * kPanelRows + lane] =
          stored[codeBytes + group];
  }
  return packed;
}

} // namespace moec
