#include "runtime/format/WeightLayout.h"

#include "runtime/base/CheckedMath.h"

namespace moert {

const char *nameOf(WeightKind kind) {
  constexpr const char *kNames[] = {"f32", "f16", "bf16", "int8", "int4", "int2"};
  return kNames[static_cast<uint8_t>(kind)];
}

static Status checkFormat(const WeightFormat &format) {
  if (!isQuantized(format.kind)) {
    if (format.group != 0 || format.activationGroup != 0 || format.hasOffsets)
      return invalidInput("a ", nameOf(format.kind),
                          " matrix has groups or offsets, expected none");
    return {};
  }
  if (format.activationGroup != 16 && format.activationGroup != 32 && format.activationGroup != 64)
    return invalidInput("activation group ", format.activationGroup, ", expected 16, 32 or 64");
  if (format.group == 0 || format.group % format.activationGroup != 0)
    return invalidInput("weight group ", format.group,
                        ", expected a multiple of the activation group ", format.activationGroup);
  return {};
}

// Sizes stay far below 2^64: rows and cols are 32 bits, so that rows * cols * 4 bytes needs 66 bits
// in the worst case, which the bound on elements excludes before anything is multiplied further.
Result<MatrixLayout> layoutOf(const MatrixShape &shape, const WeightFormat &format) {
  constexpr uint64_t kMaxElements = uint64_t(1) << 44;
  MOERT_RETURN_IF_ERROR(checkFormat(format));
  if (shape.rows == 0 || shape.cols == 0)
    return invalidInput("a matrix of ", shape.rows, " x ", shape.cols, ", expected at least 1 x 1");
  uint64_t paddedRows = roundUp(shape.rows, kPanelRows);
  uint64_t paddedCols =
      isQuantized(format.kind) ? roundUp(shape.cols, format.activationGroup) : shape.cols;
  if (paddedCols > UINT32_MAX || paddedRows * paddedCols > kMaxElements)
    return invalidInput("a matrix of ", shape.rows, " x ", shape.cols,
                        ", expected at most 2^44 elements");

  MatrixLayout layout;
  layout.paddedCols = static_cast<uint32_t>(paddedCols);
  layout.isPanels = isQuantized(format.kind) || shape.rows >= kPanelRows;
  if (!layout.isPanels) {
    layout.codesBytes = uint64_t(shape.rows) * shape.cols * bitsOf(format.kind) / 8;
    layout.bytes = layout.codesBytes;
    return layout;
  }
  layout.panels = static_cast<uint32_t>(paddedRows / kPanelRows);
  layout.codesBytes = paddedRows * paddedCols * bitsOf(format.kind) / 8;
  layout.bytes = layout.codesBytes;
  if (!isQuantized(format.kind))
    return layout;
  layout.groupsPerRow = static_cast<uint32_t>(divideUp(paddedCols, format.group));
  uint64_t tableBytes = paddedRows * layout.groupsPerRow * sizeof(uint16_t);
  layout.scalesOffset = roundUp(layout.codesBytes, kRegionAlignment);
  layout.bytes = layout.scalesOffset + tableBytes;
  if (format.hasOffsets) {
    layout.offsetsOffset = roundUp(layout.bytes, kRegionAlignment);
    layout.bytes = layout.offsetsOffset + tableBytes;
  }
  return layout;
}

} // namespace moert
