// Conversions of narrow floats. f32 to 16 bits rounds to nearest even, all others to f32 are exact.
// Integer arithmetic gives the same bits for every processor and rounding mode.
#pragma once

#include <bit>
#include <cstdint>

namespace moert {

/// A NaN stays a NaN. Values that round beyond the largest bfloat16 become infinite.
constexpr uint16_t f32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/// IEEE binary16. A NaN stays a NaN; magnitudes from 65520 on become infinite.
constexpr uint16_t f32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) // 65520, half way between 65504 and the next value.
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) { // 2^-14, the smallest normal number.
    const uint32_t rebiased = magnitude - ((127u - 15u) << 23);
    return static_cast<uint16_t>(sign | (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13);
  }
  // A multiple of 2^-24: adding 0.5 moves it into the last bits of an f32, whose spacing there is
  // 2^-24, and rounds to nearest even.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
}

/// bfloat16 is the upper half of an f32.
constexpr float bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

/// IEEE binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. Every value is exact in f32. A
/// NaN becomes quiet and keeps its payload, as in the processors' own conversions.
constexpr float f16ToF32(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) {
    const uint32_t quiet = fraction != 0 ? 0x00400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | fraction << 13);
  }
  if (exponent != 0)
    return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
  // Zero or subnormal: fraction * 2^-24, exact in f32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

/// The codes of MXFP4, 0 to 15: 1 sign, 2 exponent (bias 1), 1 fraction bits. Source: OCP
/// Microscaling Formats (MX) 1.0, section 5.3.3.
constexpr float e2m1ToF32(uint8_t code) {
  constexpr float kValues[] = {0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                               -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  return kValues[code];
}

/// The scales of MXFP4, 2^(code - 127); 255 is NaN there, and infinity here. Source: section 5.4.1.
constexpr float e8m0ToF32(uint8_t code) {
  return std::bit_cast<float>(code == 0 ? uint32_t{0x00400000} : uint32_t{code} << 23);
}

constexpr uint8_t kNanE8M0 = 255;
/// The largest scale with which every code of MXFP4 is finite in f32.
constexpr uint8_t kSafeE8M0 = 251;

} // namespace moert
