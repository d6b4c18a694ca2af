// The types in which weights of a checkpoint may be stored, and their exact way to f32.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moec {

enum class StoredType { kF32, kF16, kBf16 };

constexpr size_t storedTypeBytes(StoredType type) {
  return type == StoredType::kF32 ? 4 : 2;
}

constexpr std::string_view storedTypeName(StoredType type) {
  switch (type) {
  case StoredType::kF32:
    return "F32";
  case StoredType::kF16:
    return "F16";
  case StoredType::kBf16:
    return "BF16";
  }
  return "";
}

/// bfloat16 is the upper half of an f32.
constexpr float bf16ToF32(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

/// IEEE binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. Every value is an f32; a NaN
/// keeps its payload.
constexpr float f16ToF32(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f)
    return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0)
    return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
  // Zero or subnormal: fraction * 2^-24, exact in f32.
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

} // namespace moec
