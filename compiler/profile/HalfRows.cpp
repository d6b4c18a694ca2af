#include "compiler/profile/HalfRows.h"

#include "runtime/base/HalfFloat.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace moec {

// 2^exponent, exact; in the range of a double for every exponent of a row.
static double powerOfTwo(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
}

std::optional<int16_t> encodeHalfRow(std::span<const float> row, std::span<uint16_t> halves) {
  float largest = 0;
  bool isFinite = true;
  for (float value : row) {
    largest = std::max(largest, std::fabs(value));
    isFinite = isFinite && std::isfinite(value);
  }
  if (!isFinite)
    return std::nullopt;
  int exponent = largest == 0 ? 0 : std::ilogb(largest) - 14;
  const double factor = powerOfTwo(-exponent);
  for (size_t i = 0; i < row.size(); ++i)
    halves[i] = moert::f32ToF16(static_cast<float>(static_cast<double>(row[i]) * factor));
  return static_cast<int16_t>(exponent);
}

bool decodeHalfRow(std::span<const uint16_t> halves, int16_t exponent, std::span<float> row) {
  if (exponent < kMinRowExponent || exponent > kMaxRowExponent)
    return false;
  const double factor = powerOfTwo(exponent);
  bool isFinite = true;
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<float>(static_cast<double>(moert::f16ToF32(halves[i])) * factor);
    isFinite = isFinite && std::isfinite(row[i]);
  }
  return isFinite;
}

} // namespace moec
