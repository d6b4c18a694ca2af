// f32 to the 16-bit types, rounded to nearest even, in integer arithmetic: the same bits whatever
// the processor and its mode. The way back is compiler/import/StoredType.h.
#pragma once

#include <bit>
#include <cstdint>

namespace moec {

/// NaN stays a NaN. Values beyond the largest bfloat16 become infinite, as rounding has it.
constexpr uint16_t f32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// IEEE binary16. NaN stays a NaN, values from 65520 on become infinite.
constexpr uint16_t f32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) // 65520, half way to what would follow 65504.
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) { // 2^-14, the smallest normal number.
    const uint32_t rebiased = magnitude - ((127u - 15u) << 23);
    return static_cast<uint16_t>(sign | (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13);
  }
  // A multiple of 2^-24: adding 0.5 puts those multiples into the last bits of an f32 (its spacing
  // there is 2^-24) and rounds to nearest even on the way.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
}

} // namespace moec
