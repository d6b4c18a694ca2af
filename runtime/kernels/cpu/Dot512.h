// The integer product of one group in AVX-512 with VNNI: vpdpbusd adds four products of an unsigned
// and a signed byte to an int32 without saturating, so that the stored code, which is offset
// binary, is used as it is and 2^(bits-1) times the sum of the activation codes is taken off.
// Exact.
#pragma once

#include "runtime/kernels/cpu/Lanes512.h"

namespace moert {
namespace {

constexpr int kQuantizedRows = 8; // Rows that share what was unpacked; 2 registers of sums each.
constexpr int kFloatRows = 8;

/// Part `kPart` of a unit: the codes of 4 inputs for each of 16 outputs, one byte a code.
template <int kBits, int kPart> inline __m512i unpack(__m512i unit) {
  if constexpr (kBits == 8) {
    return unit;
  } else {
    __m512i shifted = kPart == 0 ? unit : _mm512_srli_epi16(unit, kPart * kBits);
    return _mm512_and_si512(shifted, _mm512_set1_epi8((1 << kBits) - 1));
  }
}

inline __m512i splatFour(const int8_t *codes) {
  int32_t four;
  __builtin_memcpy(&four, codes, sizeof four);
  return _mm512_set1_epi32(four);
}

template <int kBits, int kPart, int kRows>
inline void dotPart(__m512i unit, const int8_t *x, uint64_t xStride, __m512i *sums) {
  __m512i weights = unpack<kBits, kPart>(unit);
  for (int r = 0; r < kRows; ++r)
    sums[r] = _mm512_dpbusd_epi32(sums[r], weights, splatFour(x + r * xStride + kPart * 4));
}

/// products[r] = f32(sum over the group of q * x[r]); xSums[r * sumsStride] is the sum of x[r].
template <int kBits, int kGroup, int kRows>
inline void dotGroup(const std::byte *codes, const int8_t *x, uint64_t xStride,
                     const int32_t *xSums, uint64_t sumsStride, Lanes *products) {
  constexpr int kParts = 8 / kBits;
  __m512i sums[kRows];
  for (int r = 0; r < kRows; ++r)
    sums[r] = _mm512_set1_epi32(-(xSums[r * sumsStride] << (kBits - 1)));
#pragma GCC unroll 16
  for (int input = 0; input < kGroup; input += 4 * kParts) {
    __m512i unit = _mm512_loadu_si512(codes + input / (4 * kParts) * 64);
    dotPart<kBits, 0, kRows>(unit, x + input, xStride, sums);
    if constexpr (kParts > 1)
      dotPart<kBits, 1, kRows>(unit, x + input, xStride, sums);
    if constexpr (kParts > 2) {
      dotPart<kBits, 2, kRows>(unit, x + input, xStride, sums);
      dotPart<kBits, 3, kRows>(unit, x + input, xStride, sums);
    }
  }
  for (int r = 0; r < kRows; ++r)
    products[r] = {_mm512_cvtepi32_ps(sums[r])};
}

} // namespace
} // namespace moert
