// One element of a stored matrix, found and decoded by itself: WeightLayout.h in code, written to
// be read. The fast versions take whole units instead and are held against this.
#pragma once

#include "runtime/kernels/Kernels.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace moert::reference {

inline uint16_t loadU16(const std::byte *from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Binary16 to f32, exactly; a NaN becomes a quiet one.
inline float halfToFloat(uint16_t half) {
  uint32_t sign = uint32_t(half & 0x8000) << 16;
  uint32_t exponent = (half >> 10) & 0x1f, mantissa = half & 0x3ff;
  if (exponent == 0x1f) {
    uint32_t quiet = mantissa ? 0x00400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | quiet | mantissa << 13);
  }
  if (exponent == 0) { // A subnormal is mantissa * 2^-24.
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

inline float bfloatToFloat(uint16_t bits) {
  return std::bit_cast<float>(uint32_t(bits) << 16);
}

/// Element (row, col) of a float matrix in either layout.
inline float floatElement(const WeightView &w, uint32_t row, uint32_t col) {
  uint64_t index = uint64_t(row) * w.shape.cols + col;
  if (w.layout.isPanels)
    index = (uint64_t(row / kPanelRows) * w.shape.cols + col) * kPanelRows + row % kPanelRows;
  const std::byte *element = w.bytes.at(index * bitsOf(w.format.kind) / 8);
  if (w.format.kind == WeightKind::kF16)
    return halfToFloat(loadU16(element));
  if (w.format.kind == WeightKind::kBF16)
    return bfloatToFloat(loadU16(element));
  float value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

/// q of element (row, col) of a quantized matrix; col counts padded inputs.
inline int32_t quantizedElement(const WeightView &w, uint32_t row, uint32_t col) {
  uint32_t bits = bitsOf(w.format.kind);
  uint32_t unitInputs = 4 * (8 / bits); // Inputs in a unit of 64 bytes.
  uint64_t panel = uint64_t(row / kPanelRows) * w.layout.paddedCols * kPanelRows * bits / 8;
  uint64_t unit = uint64_t(col / unitInputs) * 64;
  uint32_t byteInUnit = (row % kPanelRows) * 4 + col % 4;
  uint32_t shift = bits * (col % unitInputs / 4);
  auto byte = static_cast<uint32_t>(*w.bytes.at(panel + unit + byteInUnit));
  uint32_t code = (byte >> shift) & ((1u << bits) - 1);
  return static_cast<int32_t>(code) - (1 << (bits - 1));
}

/// The entry of (row, col) in the table of scales or offsets that starts at byte `table`.
inline float groupElement(const WeightView &w, uint64_t table, uint32_t row, uint32_t col) {
  uint64_t group = uint64_t(row / kPanelRows) * w.layout.groupsPerRow + col / w.format.group;
  return halfToFloat(loadU16(w.bytes.at(table + (group * kPanelRows + row % kPanelRows) * 2)));
}

} // namespace moert::reference
