// Rows of f32 stored as f16 with one power of two per row: 11 significant bits for all elements
// within 2^-29 of the row's largest, and any range of rows. Results that are learned from rows
// (mean products, errors of quantized experts) average over thousands of them, so f32 would double
// the file without benefit, while bf16 has only 8 bits and plain f16 overflows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace moec {

/// The smallest and largest exponents of an f32, minus the 14 that f16 covers above one.
constexpr int kMinRowExponent = -149 - 14, kMaxRowExponent = 127 - 14;

/// Computes halves and exponent with row[i] = halves[i] * 2^exponent, rounded to nearest even; the
/// largest half is in [2^14, 2^15). Returns the exponent, or nullopt if the row has an infinity or
/// a NaN.
std::optional<int16_t> encodeHalfRow(std::span<const float> row, std::span<uint16_t> halves);

/// The inverse. False if the result is not finite, or if encodeHalfRow() never returns the
/// exponent.
bool decodeHalfRow(std::span<const uint16_t> halves, int16_t exponent, std::span<float> row);

} // namespace moec
