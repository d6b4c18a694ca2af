#include "compiler/quantize/PackPanels.h"

#include "compiler/import/StoredType.h"
#include "compiler/quantize/HalfFloat.h"
#include "runtime/base/CheckedMath.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace moec {

using moert::invalidInput;
using moert::kPanelRows;
using moert::MatrixLayout;
using moert::MatrixShape;
using moert::Status;
using moert::WeightFormat;
using moert::WeightKind;

namespace {

/// Scale and offset of a weight group, as they are stored.
struct GroupParameters {
  uint16_t scale = 0, offset = 0; // f16
};

GroupParameters chooseParameters(std::span<const float> group, WeightKind kind) {
  float extreme = 0, least = group[0], most = group[0];
  for (float value : group) {
    if (std::fabs(value) > std::fabs(extreme))
      extreme = value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  switch (kind) {
  case WeightKind::kInt8:
    return {f32ToF16(std::fabs(extreme) / 127), 0};
  case WeightKind::kInt4:
    return {f32ToF16(extreme / -8), 0};
  default: {
    uint16_t scale = f32ToF16((most - least) / 3);
    return {scale, f32ToF16(least + 2 * f16ToF32(scale))};
  }
  }
}

// Ties go to even, as everywhere; the division is IEEE's, so that every machine gets the same code.
uint32_t codeOf(float value, float scale, float offset, uint32_t bits) {
  int32_t high = (1 << (bits - 1)) - 1, low = bits == 8 ? -127 : -high - 1;
  float quotient = scale == 0 ? 0 : std::nearbyintf((value - offset) / scale);
  int32_t q =
      static_cast<int32_t>(std::clamp(quotient, static_cast<float>(low), static_cast<float>(high)));
  return static_cast<uint32_t>(q + (1 << (bits - 1)));
}

void putHalf(std::byte *to, uint16_t value) {
  std::memcpy(to, &value, sizeof value);
}

/// The panel layout of one quantized matrix; see WeightLayout.h for the order of codes in a byte.
class QuantizedPacker {
public:
  QuantizedPacker(const MatrixShape &matrixShape, const WeightFormat &weightFormat,
                  const MatrixLayout &matrixLayout, PackedPanels &target)
      : shape(matrixShape), format(weightFormat), layout(matrixLayout), packed(target),
        bits(bitsOf(weightFormat.kind)) {}

  Status packRow(std::span<const float> row, uint32_t rowNumber, uint64_t panel, uint32_t lane) {
    for (uint32_t group = 0; group < layout.groupsPerRow; ++group) {
      uint32_t begin = group * format.group;
      uint32_t end = std::min(shape.cols, begin + format.group);
      GroupParameters parameters = chooseParameters(row.subspan(begin, end - begin), format.kind);
      if (!std::isfinite(f16ToF32(parameters.scale)) || !std::isfinite(f16ToF32(parameters.offset)))
        return invalidInput("row ", rowNumber, ", columns ", begin, " to ", end - 1,
                            " need a scale or offset beyond 65504, the largest that is stored");
      uint64_t place = ((panel * layout.groupsPerRow + group) * kPanelRows + lane) * 2;
      putHalf(packed.scales.data() + place, parameters.scale);
      if (format.hasOffsets)
        putHalf(packed.offsets.data() + place, parameters.offset);
      float scale = f16ToF32(parameters.scale);
      float offset = format.hasOffsets ? f16ToF32(parameters.offset) : 0;
      for (uint32_t col = begin; col < end; ++col)
        putCode(panel, lane, col, codeOf(row[col], scale, offset, bits));
    }
    for (uint32_t col = shape.cols; col < layout.paddedCols; ++col)
      putCode(panel, lane, col, zeroCode());
    return {};
  }

  /// A row that only fills the last panel up.
  void packPaddingRow(uint64_t panel, uint32_t lane) {
    for (uint32_t col = 0; col < layout.paddedCols; ++col)
      putCode(panel, lane, col, zeroCode());
  }

private:
  uint32_t zeroCode() const { return 1u << (bits - 1); }

  void putCode(uint64_t panel, uint32_t lane, uint32_t col, uint32_t code) {
    uint32_t colsPerUnit = 32 / bits; // Four bytes of a lane.
    uint64_t unit = panel * (layout.paddedCols / colsPerUnit) + col / colsPerUnit;
    uint32_t inUnit = col % colsPerUnit;
    uint64_t byte = unit * 64 + lane * 4 + inUnit % 4;
    packed.codes[byte] |= static_cast<std::byte>(code << (inUnit / 4 * bits));
  }

  const MatrixShape &shape;
  const WeightFormat &format;
  const MatrixLayout &layout;
  PackedPanels &packed;
  const uint32_t bits;
};

void putFloat(std::byte *to, float value, WeightKind kind) {
  if (kind == WeightKind::kF32)
    std::memcpy(to, &value, sizeof value);
  else
    putHalf(to, kind == WeightKind::kF16 ? f32ToF16(value) : f32ToBf16(value));
}

void packFloatRow(std::span<const float> row, WeightKind kind, bool isPanels, uint64_t firstElement,
                  PackedPanels &packed) {
  uint64_t bytes = bitsOf(kind) / 8, step = isPanels ? kPanelRows : 1;
  std::byte *to = packed.codes.data() + firstElement * bytes;
  for (size_t col = 0; col < row.size(); ++col)
    putFloat(to + col * step * bytes, row[col], kind);
}

Status checkFinite(std::span<const float> row, uint32_t rowNumber) {
  for (size_t col = 0; col < row.size(); ++col)
    if (!std::isfinite(row[col]))
      return invalidInput("row ", rowNumber, ", column ", col, " is ", row[col],
                          ", expected a finite number");
  return {};
}

/// Empties the parts and says where they belong.
void startPart(const MatrixLayout &layout, const WeightFormat &format, uint32_t firstRow,
               uint32_t rowCount, uint32_t cols, PackedPanels &packed) {
  packed = {};
  uint64_t elementBits = bitsOf(format.kind);
  if (!layout.isPanels) {
    packed.codesAt = uint64_t(firstRow) * cols * elementBits / 8;
    packed.codes.assign(uint64_t(rowCount) * cols * elementBits / 8, std::byte{0});
    return;
  }
  uint64_t panels = moert::divideUp(rowCount, kPanelRows), first = firstRow / kPanelRows;
  uint64_t panelBytes = layout.codesBytes / layout.panels;
  packed.codesAt = first * panelBytes;
  packed.codes.assign(panels * panelBytes, std::byte{0});
  if (!isQuantized(format.kind))
    return;
  uint64_t tableBytes = uint64_t(layout.groupsPerRow) * kPanelRows * 2;
  packed.scalesAt = layout.scalesOffset + first * tableBytes;
  packed.scales.assign(panels * tableBytes, std::byte{0});
  if (format.hasOffsets) {
    packed.offsetsAt = layout.offsetsOffset + first * tableBytes;
    packed.offsets.assign(panels * tableBytes, std::byte{0});
  }
}

} // namespace

Status packRows(std::span<const float> rows, const MatrixShape &shape, const WeightFormat &format,
                uint32_t firstRow, PackedPanels &packed) {
  MOERT_ASSIGN_OR_RETURN(MatrixLayout layout, layoutOf(shape, format));
  uint32_t rowCount = static_cast<uint32_t>(rows.size() / shape.cols);
  startPart(layout, format, firstRow, rowCount, shape.cols, packed);
  QuantizedPacker packer(shape, format, layout, packed);
  for (uint32_t i = 0; i < rowCount; ++i) {
    std::span<const float> row = rows.subspan(uint64_t(i) * shape.cols, shape.cols);
    MOERT_RETURN_IF_ERROR(checkFinite(row, firstRow + i));
    uint64_t panel = i / kPanelRows;
    uint32_t lane = i % kPanelRows;
    if (isQuantized(format.kind))
      MOERT_RETURN_IF_ERROR(packer.packRow(row, firstRow + i, panel, lane));
    else if (layout.isPanels)
      packFloatRow(row, format.kind, true, panel * shape.cols * kPanelRows + lane, packed);
    else
      packFloatRow(row, format.kind, false, uint64_t(i) * shape.cols, packed);
  }
  if (isQuantized(format.kind))
    for (uint32_t i = rowCount; i % kPanelRows != 0; ++i)
      packer.packPaddingRow(i / kPanelRows, i % kPanelRows);
  return {};
}

} // namespace moec
