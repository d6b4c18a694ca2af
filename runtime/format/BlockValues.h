// The values in a block of ggml's types: codes with their scales. The formulas are those of ggml
// (ggml-quants.c, dequantize_row_*): products are exact in f32 and a sum rounds once, so that every
// order of the operations gives the same bits.
//
// `B` is where a block begins, or a part of one: b[n] is byte n from there, b + n the place n bytes
// later. `i` is an element of the block.
#pragma once

#include "runtime/base/HalfFloat.h"
#include "runtime/format/WeightLayout.h"

#include <cstdint>

namespace moert::blocks {

template <typename B> constexpr uint32_t u16(B b) {
  return b[0] | uint32_t{b[1]} << 8;
}

template <typename B> constexpr uint32_t u32(B b) {
  return u16(b) | u16(b + 2) << 16;
}

template <typename B> constexpr float half(B b) {
  return f16ToF32(static_cast<uint16_t>(u16(b)));
}

constexpr float real(uint32_t value) {
  return static_cast<float>(static_cast<int32_t>(value));
}

/// Half j of a byte, the low one first.
constexpr uint32_t nibble(uint8_t byte, uint32_t j) {
  return byte >> 4 * j & 15u;
}

constexpr uint32_t bit(uint32_t word, uint32_t i) {
  return word >> i & 1u;
}

/// Codes of four bits: byte j holds those of the elements j and j + 16 of 32.
template <typename B> constexpr uint32_t code4(B codes, uint32_t i) {
  return nibble(codes[i % 16], i / 16);
}

/// Codes of two bits: byte l holds those of the elements l, l + 32, l + 64 and l + 96 of 128.
template <typename B> constexpr uint32_t code2(B codes, uint32_t i) {
  return codes[i / 128 * 32 + i % 32] >> 2 * (i % 128 / 32) & 3u;
}

/// The level of a code of iq4_nl and iq4_xs.
constexpr int8_t iq4Level(uint32_t code) {
  constexpr int8_t kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};
  return kLevels[code];
}

template <typename B> constexpr float q4x0(B b, uint32_t i) {
  return half(b) * real(code4(b + 2, i) - 8);
}

template <typename B> constexpr float q4x1(B b, uint32_t i) {
  return half(b) * real(code4(b + 4, i)) + half(b + 2);
}

template <typename B> constexpr float q5x0(B b, uint32_t i) {
  return half(b) * real(code4(b + 6, i) + 16 * bit(u32(b + 2), i) - 16);
}

template <typename B> constexpr float q5x1(B b, uint32_t i) {
  return half(b) * real(code4(b + 8, i) + 16 * bit(u32(b + 4), i)) + half(b + 2);
}

template <typename B> constexpr float q8x0(B b, uint32_t i) {
  return half(b) * static_cast<float>(static_cast<int8_t>(b[2 + i]));
}

template <typename B> constexpr float q2K(B b, uint32_t i) {
  const uint32_t scales = b[i / 16];
  return half(b + 80) * real(scales & 15u) * real(code2(b + 16, i)) -
         half(b + 82) * real(scales >> 4);
}

template <typename B> constexpr float q3K(B b, uint32_t i) {
  const uint32_t j = i / 16;
  const uint32_t scale =
      nibble(b[96 + j % 8], j / 8) + 16 * (b[104 + j % 4] >> 2 * (j / 4) & 3u) - 32;
  return half(b + 108) * real(scale) * real(code2(b + 32, i) + 4 * bit(b[i % 32], i / 32) - 4);
}

/// d * scale * code - m * least, with six bits for each of the eight scales and minima.
template <typename B> constexpr float scaledWithMinimum(B b, uint32_t group, uint32_t code) {
  const uint32_t first = b[4 + group % 4], second = b[8 + group % 4];
  const uint32_t both = group < 4 ? 0 : b[8 + group];
  const uint32_t scale = group < 4 ? first & 63u : (both & 15u) + 16u * (first >> 6);
  const uint32_t least = group < 4 ? second & 63u : (both >> 4) + 16u * (second >> 6);
  return half(b) * real(scale) * real(code) - half(b + 2) * real(least);
}

template <typename B> constexpr float q4K(B b, uint32_t i) {
  const uint32_t g = i / 32;
  return scaledWithMinimum(b, g, nibble(b[16 + 32 * (g / 2) + i % 32], g % 2));
}

template <typename B> constexpr float q5K(B b, uint32_t i) {
  const uint32_t g = i / 32, l = i % 32;
  return scaledWithMinimum(b, g, nibble(b[48 + 32 * (g / 2) + l], g % 2) + 16 * bit(b[16 + l], g));
}

template <typename B> constexpr float q6K(B b, uint32_t i) {
  const uint32_t h = i / 128, s = i % 128 / 32, l = i % 32;
  const uint32_t code =
      nibble(b[64 * h + 32 * (s % 2) + l], s / 2) + 16 * (b[128 + 32 * h + l] >> 2 * s & 3u) - 32;
  return half(b + 208) * static_cast<float>(static_cast<int8_t>(b[192 + i / 16])) * real(code);
}

template <typename B> constexpr float iq4Nl(B b, uint32_t i) {
  return half(b) * static_cast<float>(iq4Level(code4(b + 2, i)));
}

template <typename B> constexpr float iq4Xs(B b, uint32_t i) {
  const uint32_t g = i / 32;
  const uint32_t scale = nibble(b[4 + g / 2], g % 2) + 16 * (u16(b + 2) >> 2 * g & 3u) - 32;
  return half(b) * real(scale) * static_cast<float>(iq4Level(code4(b + 8 + 16 * g, i % 32)));
}

/// The kind has blocks.
template <typename B> constexpr float valueOf(WeightKind kind, B b, uint32_t i) {
  switch (kind) {
  case WeightKind::kQ4x0:
    return q4x0(b, i);
  case WeightKind::kQ4x1:
    return q4x1(b, i);
  case WeightKind::kQ5x0:
    return q5x0(b, i);
  case WeightKind::kQ5x1:
    return q5x1(b, i);
  case WeightKind::kQ8x0:
    return q8x0(b, i);
  case WeightKind::kQ2K:
    return q2K(b, i);
  case WeightKind::kQ3K:
    return q3K(b, i);
  case WeightKind::kQ4K:
    return q4K(b, i);
  case WeightKind::kQ5K:
    return q5K(b, i);
  case WeightKind::kQ6K:
    return q6K(b, i);
  case WeightKind::kIq4Nl:
    return iq4Nl(b, i);
  case WeightKind::kIq4Xs:
    return iq4Xs(b, i);
  default:
    return 0;
  }
}

} // namespace moert::blocks
