// The integer product of one group in AVX-512 with VNNI: vpdpbusd adds four products of an unsigned
// and a signed byte to an int32 without saturating, so the stored code, which is offset binary, is
// used without conversion and 2^(bits-1) times the sum of the activation codes is subtracted.
// Exact.
#pragma once

#include "runtime/exec/cpu/Lanes512.h"

namespace moert {
namespace {

constexpr int kQuantizedRows = 8; // Rows that share unpacked codes; 2 registers of sums each.
constexpr int kFloatRows = 8;

using Bytes = __m512i;

// Byte shifts are built from 16-bit shifts: the bits that come in from the neighbour are always
// masked off.
template <int kBits> inline Bytes shiftLeft(Bytes bytes) {
  return _mm512_slli_epi16(bytes, kBits);
}
template <int kBits> inline Bytes shiftRight(Bytes bytes) {
  return _mm512_srli_epi16(bytes, kBits);
}
template <int kMask> inline Bytes keep(Bytes bytes) {
  return _mm512_and_si512(bytes, _mm512_set1_epi8(static_cast<char>(kMask)));
}
/// Bits of x where the mask is 1, of y elsewhere.
template <int kMask> inline Bytes choose(Bytes x, Bytes y) {
  constexpr int kTable = 0xca; // mask ? x : y
  return _mm512_ternarylogic_epi64(_mm512_set1_epi8(static_cast<char>(kMask)), x, y, kTable);
}

/// table[code] of each byte; codes are below 16.
inline Bytes lookUp(const uint8_t *table, Bytes codes) {
  __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i *>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(sixteen), codes);
}

} // namespace
} // namespace moert

#include "runtime/exec/cpu/PlaneCodes.h"

namespace moert {
namespace {

/// Loads the next 64 bytes, once and in ascending order. Otherwise GCC loads a unit again for each
/// of its parts and reorders loads, and the hardware prefetcher no longer detects a stream: 0.72 of
/// a plain read's rate instead of 0.95 (int8, one row, Zen 4).
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

/// sums[r] = sum over the group of code * x[r].
template <typename P, int kGroup, int kRows>
inline void dotCodes(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride, __m512i *sums) {
  // With few rows a group is split into several chains of additions; otherwise their latency would
  // fill the scheduler.
  constexpr int kChains = kRows == 2 ? 2 : 1;
  const std::byte *next[P::kCount];
  for (int p = 0; p < P::kCount; ++p)
    next[p] = codes.planes[p];
  __m512i chains[kRows][kChains];
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kChains; ++c)
      chains[r][c] = _mm512_setzero_si512();
#pragma GCC unroll 16
  for (int input = 0; input < kGroup; input += P::kInputs) {
    Bytes parts[P::kParts];
    joinCodes<P>([&](int plane) { return takeUnit(next[plane]); }, codes, parts);
#pragma GCC unroll 8
    for (int part = 0; part < P::kParts; ++part) {
      const int8_t *four = x + input + 4 * part;
      int chain = (input / 4 + part) % kChains;
      for (int r = 0; r < kRows; ++r)
        chains[r][chain] =
            _mm512_dpbusd_epi32(chains[r][chain], parts[part], splatFour(four + r * xStride));
    }
  }
  for (int r = 0; r < kRows; ++r) {
    sums[r] = chains[r][0];
    for (int c = 1; c < kChains; ++c)
      sums[r] = _mm512_add_epi32(sums[r], chains[r][c]);
  }
}

/// products[r] = f32(sum over the group of q * x[r]); xSums[r * sumsStride] is the sum of x[r].
template <typename P, int kGroup, int kRows>
inline void dotGroup(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                     const int32_t *xSums, uint64_t sumsStride, Lanes *products) {
  __m512i sums[kRows];
  dotCodes<P, kGroup, kRows>(codes, x, xStride, sums);
  for (int r = 0; r < kRows; ++r) {
    // Shifted in the vector: a broadcast from memory is cheaper than one from a register.
    __m512i shift =
        _mm512_slli_epi32(_mm512_set1_epi32(xSums[r * sumsStride]), P::kProductBits - 1);
    products[r] = {_mm512_cvtepi32_ps(_mm512_sub_epi32(sums[r], shift))};
  }
}

/// The same with the number of steps known only at run time.
template <typename P, int kGroup, int kRows>
inline void dotGroupOnGrid(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                           const int32_t *xSums, uint64_t sumsStride, const GridSteps &steps,
                           Lanes *products) {
  __m512i sums[kRows];
  dotCodes<P, kGroup, kRows>(codes, x, xStride, sums);
  for (int r = 0; r < kRows; ++r) {
    __m512i shifted = _mm512_sll_epi32(sums[r], _mm_cvtsi32_si128(steps.shift));
    __m512i center = _mm512_set1_epi32(xSums[r * sumsStride] * steps.center);
    products[r] = {_mm512_cvtepi32_ps(_mm512_add_epi32(shifted, center))};
  }
}

} // namespace
} // namespace moert
