#include "compiler/import/codecs/NumberFormat.h"

#include "runtime/base/HalfFloat.h"

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace moec {

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr float e4m3Value(uint32_t code) {
  const uint32_t sign = code >> 7 << 31, exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7)
    return kNan;
  const float magnitude = exponent == 0
                              ? static_cast<float>(mantissa) * 0x1p-9f
                              : std::bit_cast<float>((exponent + 127 - 7) << 23 | mantissa << 20);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

constexpr float e8m0Value(uint32_t code) {
  return code == 255 ? kNan : moert::e8m0ToF32(static_cast<uint8_t>(code));
}

constexpr float int8Value(uint32_t code) {
  return static_cast<float>(static_cast<int8_t>(code));
}

constexpr float e2m1Value(uint32_t code) {
  return moert::e2m1ToF32(static_cast<uint8_t>(code));
}

constexpr float unsigned4Value(uint32_t code) {
  return static_cast<float>(code);
}

constexpr float offset4Value(uint32_t code) {
  return static_cast<float>(code) - 8;
}

constexpr float successor4Value(uint32_t code) {
  return static_cast<float>((code + 1) & 15);
}

template <size_t size, float (*value)(uint32_t)> constexpr std::array<float, size> makeTable() {
  std::array<float, size> table = {};
  for (uint32_t code = 0; code < size; ++code)
    table[code] = value(code);
  return table;
}

template <float (*value)(uint32_t)> NumberFormat byteFormat() {
  static constexpr auto kTable = makeTable<256, value>();
  return {NumberFormat::Kind::kByte, kTable};
}

template <float (*value)(uint32_t)> NumberFormat nibbleFormat() {
  static constexpr auto kTable = makeTable<16, value>();
  return {NumberFormat::Kind::kNibble, kTable};
}

} // namespace

NumberFormat e4m3Format() {
  return byteFormat<e4m3Value>();
}

NumberFormat e8m0Format() {
  return byteFormat<e8m0Value>();
}

NumberFormat int8Format() {
  return byteFormat<int8Value>();
}

NumberFormat e2m1Format() {
  return nibbleFormat<e2m1Value>();
}

NumberFormat unsigned4Format() {
  return nibbleFormat<unsigned4Value>();
}

NumberFormat offset4Format() {
  return nibbleFormat<offset4Value>();
}

NumberFormat successor4Format() {
  return nibbleFormat<successor4Value>();
}

std::optional<NumberFormat> scaleFormatOf(TensorType type) {
  switch (type) {
  case TensorType::kF32:
    return NumberFormat{NumberFormat::Kind::kF32};
  case TensorType::kF16:
    return NumberFormat{NumberFormat::Kind::kF16};
  case TensorType::kBf16:
    return NumberFormat{NumberFormat::Kind::kBf16};
  case TensorType::kF8E4M3:
    return e4m3Format();
  case TensorType::kF8E8M0:
    return e8m0Format();
  default:
    return std::nullopt;
  }
}

size_t elementBytes(NumberFormat::Kind kind) {
  switch (kind) {
  case NumberFormat::Kind::kF32:
    return 4;
  case NumberFormat::Kind::kF16:
  case NumberFormat::Kind::kBf16:
    return 2;
  case NumberFormat::Kind::kByte:
  case NumberFormat::Kind::kNibble:
    break;
  }
  return 1;
}

} // namespace moec
