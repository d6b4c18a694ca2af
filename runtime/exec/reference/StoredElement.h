// Finds and decodes one element of a stored matrix: WeightLayout.h in code, written for
// readability. The vector versions load whole units instead and are compared with this.
#pragma once

#include "runtime/base/HalfFloat.h"
#include "runtime/exec/Kernels.h"
#include "runtime/format/BlockValues.h"
#include "runtime/format/CodeLevels.h"

#include <cmath>
#include <cstring>

namespace moert::reference {

inline uint16_t loadU16(const std::byte *from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Element (row, col) of an MXFP4 matrix. The product is exact: the factor has two significant
/// bits, and no MXFP4 value is below f32's.
inline float mxfp4Element(const WeightView &w, uint32_t row, uint32_t col) {
  const uint64_t panel = row / kPanelRows, lane = row % kPanelRows;
  const uint64_t unit = (panel * w.shape.cols + col) / 8;
  const uint64_t group = panel * w.layout.groupsPerRow + col / kMxfp4Group;
  auto codes = static_cast<uint8_t>(*w.bytes.at(unit * 64 + lane * 4 + col % 8 / 2));
  auto scale = static_cast<uint8_t>(*w.bytes.at(w.layout.scalesOffset + group * kPanelRows + lane));
  return e2m1ToF32(col % 2 == 0 ? codes & 15 : codes >> 4) * e8m0ToF32(scale);
}

/// The bytes of one output's block, of which each is kPanelRows bytes after the one before it.
struct LaneBytes {
  const PagedBytes &bytes;
  uint64_t first;

  uint8_t operator[](uint32_t i) const {
    return static_cast<uint8_t>(*bytes.at(first + uint64_t(i) * kPanelRows));
  }
  LaneBytes operator+(uint32_t i) const { return {bytes, first + uint64_t(i) * kPanelRows}; }
};

/// Element (row, col) of a matrix of blocks.
inline float blockElement(const WeightView &w, uint32_t row, uint32_t col) {
  const WeightBlock block = blockOf(w.format.kind);
  const uint64_t index = uint64_t(row / kPanelRows) * w.layout.groupsPerRow + col / block.elements;
  const LaneBytes bytes = {w.bytes, index * block.bytes * kPanelRows + row % kPanelRows};
  return blocks::valueOf(w.format.kind, bytes, col % block.elements);
}

/// Element (row, col) of a float matrix in either layout.
inline float floatElement(const WeightView &w, uint32_t row, uint32_t col) {
  if (hasBlocks(w.format.kind))
    return blockElement(w, row, col);
  if (w.format.kind == WeightKind::kMxfp4)
    return mxfp4Element(w, row, col);
  uint64_t index = uint64_t(row) * w.shape.cols + col;
  if (w.layout.isPanels)
    index = (uint64_t(row / kPanelRows) * w.shape.cols + col) * kPanelRows + row % kPanelRows;
  const std::byte *element = w.bytes.at(index * bitsOf(w.format.kind) / 8);
  if (w.format.kind == WeightKind::kF16)
    return f16ToF32(loadU16(element));
  if (w.format.kind == WeightKind::kBF16)
    return bf16ToF32(loadU16(element));
  float value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

/// The bits of element (row, col) in one plane, which starts at byte `offset`; col counts padded
/// inputs.
inline uint32_t planeElement(const WeightView &w, WeightKind kind, uint64_t offset, uint32_t row,
                             uint32_t col) {
  uint32_t bits = bitsOf(kind);
  uint32_t unitInputs = 4 * (8 / bits); // Inputs in a unit of 64 bytes.
  uint64_t panel = uint64_t(row / kPanelRows) * w.layout.paddedCols * kPanelRows * bits / 8;
  uint64_t unit = uint64_t(col / unitInputs) * 64;
  uint32_t byteInUnit = (row % kPanelRows) * 4 + col % 4;
  auto byte = static_cast<uint32_t>(*w.bytes.at(offset + panel + unit + byteInUnit));
  return (byte >> bitPlaceOf(kind, col % unitInputs / 4)) & ((1u << bits) - 1);
}

/// Element (row, col) of a quantized matrix, in steps of its grid from the zero: q if every bit is
/// read, half steps if some are missing; with non-linear codes the level in either case. col counts
/// padded inputs.
inline int32_t quantizedElement(const WeightView &w, uint32_t row, uint32_t col) {
  uint32_t bits = bitsOf(w.format.kind);
  uint32_t code = planeElement(w, w.format.kind, 0, row, col);
  for (uint32_t p = 0; p < w.planeCount; ++p) {
    uint32_t planeBits = bitsOf(w.planes[p].kind);
    code = code << planeBits | planeElement(w, w.planes[p].kind, w.planes[p].offset, row, col);
    bits += planeBits;
  }
  if (hasLevels(w.format.kind))
    return levelsOf(bits + w.missingBits, w.missingBits).of[code] - kLevelZero;
  if (w.missingBits == 0)
    return static_cast<int32_t>(code) - (1 << (bits - 1));
  // The middle of all codes with these leading bits, as twice its distance from the zero.
  int32_t middle = static_cast<int32_t>(2 * code << w.missingBits) + (1 << w.missingBits) - 1;
  return middle - (1 << (bits + w.missingBits));
}

/// The entry of (row, col) in the table of scales or offsets that starts at byte `table`.
inline float groupElement(const WeightView &w, uint64_t table, uint32_t row, uint32_t col) {
  uint64_t group = uint64_t(row / kPanelRows) * w.layout.groupsPerRow + col / w.format.group;
  return f16ToF32(loadU16(w.bytes.at(table + (group * kPanelRows + row % kPanelRows) * 2)));
}

/// A byte times a bf16: exact.
inline float byteScale(const WeightView &w, uint32_t row, uint32_t col) {
  uint64_t group = uint64_t(row / kPanelRows) * w.layout.groupsPerRow + col / w.format.group;
  uint64_t entry = group * kPanelRows + row % kPanelRows;
  auto code = static_cast<int8_t>(*w.bytes.at(w.layout.scalesOffset + entry));
  return bf16ToF32(loadU16(w.bytes.at(w.layout.rowScalesOffset + uint64_t(row) * 2))) * code;
}

/// The value of one step of quantizedElement().
inline float stepOf(const WeightView &w, uint32_t row, uint32_t col) {
  float scale = w.format.hasByteScales ? byteScale(w, row, col)
                                       : groupElement(w, w.layout.scalesOffset, row, col);
  return w.missingBits == 0 || hasLevels(w.format.kind) ? scale : scale * 0.5f;
}

} // namespace moert::reference
