// Arithmetic on sizes that come from files. A number from outside is added, multiplied, rounded or
// used as an offset only through these functions.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>

namespace moert {

/// Whether [offset, offset + length) lies within [0, size), without computing the sum.
constexpr bool rangeFits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

constexpr std::optional<uint64_t> checkedAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    return std::nullopt;
  return sum;
}

constexpr std::optional<uint64_t> checkedMultiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    return std::nullopt;
  return product;
}

/// The smallest multiple of a power of two that is not below value; nullopt if it does not fit.
constexpr std::optional<uint64_t> checkedRoundUp(uint64_t value, uint64_t powerOfTwo) {
  std::optional<uint64_t> sum = checkedAdd(value, powerOfTwo - 1);
  if (!std::has_single_bit(powerOfTwo) || !sum)
    return std::nullopt;
  return *sum & ~(powerOfTwo - 1);
}

/// For trusted sizes that cannot overflow.
constexpr uint64_t roundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
constexpr uint64_t divideUp(uint64_t value, uint64_t divisor) {
  return (value + divisor - 1) / divisor;
}

} // namespace moert
