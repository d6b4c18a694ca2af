// The number formats of coded weights and their scales, as tables of f32 values. All values are
// exact. Sources: OCP 8-bit Floating Point Specification (E4M3: no infinities, 0x7f and 0xff are
// NaN), OCP Microscaling Formats (E2M1, E8M0: 2^(code - 127), 255 is NaN).
#pragma once

#include "compiler/import/StoredTensor.h"

#include <cstddef>
#include <optional>
#include <span>

namespace moec {

/// How a stored element becomes a number.
struct NumberFormat {
  enum class Kind { kF32, kF16, kBf16, kByte, kNibble };
  Kind kind = Kind::kF32;
  std::span<const float> values = {}; // By code: 256 for kByte, 16 for kNibble. Static memory.
};

/// F8_E4M3, as kByte.
NumberFormat e4m3Format();
/// Powers of two, as kByte.
NumberFormat e8m0Format();
/// Signed integers of 8 bits.
NumberFormat int8Format();
/// 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, as kNibble.
NumberFormat e2m1Format();
/// Integers of 4 bits, as kNibble: the code; code - 8; (code + 1) mod 16.
NumberFormat unsigned4Format();
NumberFormat offset4Format();
NumberFormat successor4Format();

/// The format of a scale's stored type: F32, F16, BF16, F8_E4M3 or F8_E8M0; nullopt for others.
std::optional<NumberFormat> scaleFormatOf(TensorType type);

/// Bytes of an element; for kNibble that of two.
size_t elementBytes(NumberFormat::Kind kind);

} // namespace moec
