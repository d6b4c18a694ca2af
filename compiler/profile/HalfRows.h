// Rows of f32 as f16 with one power of two per row. 11 significant bits for everything within
// 2^-29 of a row's largest element, and no row too large or too small for it: what is learned from
// the rows (mean products, errors of quantized experts) averages over thousands of them, so that
// f32 would double the file for nothing, while bf16 has 8 bits and f16 alone overflows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace moec {

/// Of an f32: its smallest and largest power of two, less the 14 that f16 keeps above one.
constexpr int kMinRowExponent = -149 - 14, kMaxRowExponent = 127 - 14;

/// halves[i] * 2^result is row[i], rounded to nearest even; the largest is within [2^14, 2^15).
/// nullopt: the row has an infinite element or a NaN.
std::optional<int16_t> encodeHalfRow(std::span<const float> row, std::span<uint16_t> halves);

/// The way back. False where that is not finite, or the exponent is not one that encodeHalfRow()
/// gives.
bool decodeHalfRow(std::span<const uint16_t> halves, int16_t exponent, std::span<float> row);

} // namespace moec
