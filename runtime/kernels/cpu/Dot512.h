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

/// The next 64 bytes, once and in ascending order. Left alone, GCC loads a unit anew for each of
/// its parts and moves loads across each other, and the processor's prefetching then takes the
/// stream for none: 0.72 of a plain read's rate instead of 0.95 (int8, one row, Zen 4).
inline __m512i takeUnit(const std::byte *&next) {
  __m512i unit = _mm512_loadu_si512(next);
  next += 64;
  asm volatile("" : "+v"(unit), "+r"(next));
  return unit;
}

inline __m512i splatFour(const int8_t *codes) {
  int32_t four;
  __builtin_memcpy(&four, codes, sizeof four);
  return _mm512_set1_epi32(four);
}

template <int kBits, int kPart, int kRows, int kChains>
inline void dotPart(__m512i unit, const int8_t *x, uint64_t xStride, __m512i (*sums)[kChains],
                    int chain) {
  __m512i weights = unpack<kBits, kPart>(unit);
  for (int r = 0; r < kRows; ++r) {
    __m512i &sum = sums[r][(chain + kPart) % kChains];
    sum = _mm512_dpbusd_epi32(sum, weights, splatFour(x + r * xStride + kPart * 4));
  }
}

/// products[r] = f32(sum over the group of q * x[r]); xSums[r * sumsStride] is the sum of x[r].
template <int kBits, int kGroup, int kRows>
inline void dotGroup(const std::byte *codes, const int8_t *x, uint64_t xStride,
                     const int32_t *xSums, uint64_t sumsStride, Lanes *products) {
  constexpr int kParts = 8 / kBits;
  // With few rows a group is several chains of additions, or their latency would fill the
  // scheduler.
  constexpr int kChains = kRows == 2 ? 2 : 1;
  __m512i sums[kRows][kChains];
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kChains; ++c)
      sums[r][c] = _mm512_setzero_si512();
#pragma GCC unroll 16
  for (int input = 0; input < kGroup; input += 4 * kParts) {
    __m512i unit = takeUnit(codes);
    const int8_t *four = x + input;
    int chain = input / 4 % kChains;
    dotPart<kBits, 0, kRows, kChains>(unit, four, xStride, sums, chain);
    if constexpr (kParts > 1)
      dotPart<kBits, 1, kRows, kChains>(unit, four, xStride, sums, chain);
    if constexpr (kParts > 2) {
      dotPart<kBits, 2, kRows, kChains>(unit, four, xStride, sums, chain);
      dotPart<kBits, 3, kRows, kChains>(unit, four, xStride, sums, chain);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 1; c < kChains; ++c)
      sums[r][0] = _mm512_add_epi32(sums[r][0], sums[r][c]);
    // Shifted in the vector: a broadcast from memory is cheaper than one from a register.
    __m512i shift = _mm512_slli_epi32(_mm512_set1_epi32(xSums[r * sumsStride]), kBits - 1);
    products[r] = {_mm512_cvtepi32_ps(_mm512_sub_epi32(sums[r][0], shift))};
  }
}

} // namespace
} // namespace moert
