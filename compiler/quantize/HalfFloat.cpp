#include "compiler/quantize/HalfFloat.h"

#include <bit>

namespace moec {

// Drops `count` low bits, rounding to nearest even. A carry into the exponent is what it should be:
// the next power of two, or infinity.
static uint32_t roundAway(uint32_t bits, uint32_t count) {
  uint32_t half = 1u << (count - 1);
  uint32_t isOdd = (bits >> count) & 1;
  return (bits + half - 1 + isOdd) >> count;
}

uint16_t f32ToF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = bits >> 31 << 15, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) // 65536 and infinity; 65520 to 65536 round up below.
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude >= 0x38800000u) // Normal: 2^-14 and more. The exponent's bias goes from 127 to 15.
    return static_cast<uint16_t>(sign | roundAway(magnitude - (112u << 23), 13));
  uint32_t exponent = magnitude >> 23;
  if (exponent < 102) // Below half of the smallest subnormal.
    return static_cast<uint16_t>(sign);
  // Subnormal: the fraction with its leading one, in units of 2^-24.
  uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
  return static_cast<uint16_t>(sign | roundAway(fraction, 126 - exponent));
}

uint16_t f32ToBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>(roundAway(bits, 16));
}

} // namespace moec
