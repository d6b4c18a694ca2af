// 16 lanes in AVX2, as two halves; Lanes512.h documents each function and why everything here has
// internal linkage.
#pragma once

#include "runtime/exec/cpu/PanelBytes.h"

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

namespace moert {
namespace {

struct Lanes {
  __m256 low, high;
};

constexpr int kValueSums = 6; // Out of 8 register pairs; the others hold values and weights.
constexpr int kKeptPanels = 2;

/// All ones in the first `count` of the 8 lanes that start at lane `from`.
inline __m256i firstLanes(uint32_t count, int from) {
  __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count) - from), index);
}

inline Lanes zeroLanes() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
inline Lanes splat(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
inline Lanes load(const float *from) {
  return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}
inline Lanes loadFirst(const float *from, uint32_t count) {
  return {_mm256_maskload_ps(from, firstLanes(count, 0)),
          _mm256_maskload_ps(from + 8, firstLanes(count, 8))};
}
inline void store(float *to, Lanes a) {
  _mm256_storeu_ps(to, a.low);
  _mm256_storeu_ps(to + 8, a.high);
}
inline void storeFirst(float *to, Lanes a, uint32_t count) {
  _mm256_maskstore_ps(to, firstLanes(count, 0), a.low);
  _mm256_maskstore_ps(to + 8, firstLanes(count, 8), a.high);
}

inline Lanes add(Lanes a, Lanes b) {
  return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
inline Lanes subtract(Lanes a, Lanes b) {
  return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
inline Lanes multiply(Lanes a, Lanes b) {
  return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
inline Lanes divide(Lanes a, Lanes b) {
  return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline Lanes fmaFirst(Lanes a, Lanes b, Lanes c, uint32_t count) {
  Lanes sum = fma(a, b, c);
  return {_mm256_blendv_ps(c.low, sum.low, _mm256_castsi256_ps(firstLanes(count, 0))),
          _mm256_blendv_ps(c.high, sum.high, _mm256_castsi256_ps(firstLanes(count, 8)))};
}
inline Lanes larger(Lanes a, Lanes b) {
  return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}
template <int kApart> inline Lanes exchange(Lanes a) {
  constexpr int kLanesOfHalf = kApart == 1 ? 0xb1 : 0x4e;
  if constexpr (kApart <= 2)
    return {_mm256_permute_ps(a.low, kLanesOfHalf), _mm256_permute_ps(a.high, kLanesOfHalf)};
  else if constexpr (kApart == 4)
    return {_mm256_permute2f128_ps(a.low, a.low, 1), _mm256_permute2f128_ps(a.high, a.high, 1)};
  else
    return {a.high, a.low};
}
inline Lanes negate(Lanes a) {
  __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
}

inline Lanes whereLess(Lanes a, Lanes b, Lanes x, Lanes y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
inline Lanes whereNaN(Lanes a, Lanes x, Lanes y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, a.low, _CMP_UNORD_Q)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, a.high, _CMP_UNORD_Q))};
}

inline __m256 scaleByPower(__m256 a, __m256 shifted, __m256 shift) {
  __m256i n = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_castps_si256(shift));
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), _mm256_slli_epi32(n, 23)));
}
inline Lanes scaleByPower(Lanes a, Lanes shifted, Lanes shift) {
  return {scaleByPower(a.low, shifted.low, shift.low),
          scaleByPower(a.high, shifted.high, shift.high)};
}

inline float treeSum(Lanes a) {
  __m256 by8 = _mm256_add_ps(a.low, a.high);
  __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

inline void treeSums4(const Lanes *a, float *to) {
  __m128 by4[4];
  for (int i = 0; i < 4; ++i) {
    __m256 by8 = _mm256_add_ps(a[i].low, a[i].high);
    by4[i] = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  }
  // Lanes (0, 1) and (2, 3) of two sums side by side, then the even and the odd lanes of all four.
  __m128 first = _mm_add_ps(_mm_movelh_ps(by4[0], by4[1]), _mm_movehl_ps(by4[1], by4[0]));
  __m128 second = _mm_add_ps(_mm_movelh_ps(by4[2], by4[3]), _mm_movehl_ps(by4[3], by4[2]));
  _mm_storeu_ps(
      to, _mm_add_ps(_mm_shuffle_ps(first, second, 0x88), _mm_shuffle_ps(first, second, 0xdd)));
}

inline float largestLane(Lanes a) {
  __m256 by8 = _mm256_max_ps(a.low, a.high);
  __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_max_ss(by2, _mm_movehdup_ps(by2)));
}

inline __m128i loadEight(const std::byte *from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(from));
}
inline Lanes loadF32(const std::byte *from) {
  return load(reinterpret_cast<const float *>(from));
}
inline Lanes loadF16(const std::byte *from) {
  return {_mm256_cvtph_ps(loadEight(from)), _mm256_cvtph_ps(loadEight(from + 16))};
}
inline void storeF16(std::byte *to, Lanes a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  auto *halves = reinterpret_cast<__m128i *>(to);
  _mm_storeu_si128(halves, _mm256_cvtps_ph(a.low, kNearest));
  _mm_storeu_si128(halves + 1, _mm256_cvtps_ph(a.high, kNearest));
}
inline __m256 widenI8(__m128i eight) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
}
inline Lanes toFloats(PanelBytes a) {
  return {widenI8(a.v), widenI8(_mm_unpackhi_epi64(a.v, a.v))};
}
inline Lanes widenF16(PanelBytes low, PanelBytes high) {
  return {_mm256_cvtph_ps(_mm_unpacklo_epi8(low.v, high.v)),
          _mm256_cvtph_ps(_mm_unpackhi_epi8(low.v, high.v))};
}
inline Lanes loadI8(const std::byte *from) {
  return toFloats(loadBytes(from));
}
inline __m256 widenBF16(__m128i eight) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(eight), 16));
}
inline Lanes loadBF16(const std::byte *from) {
  return {widenBF16(loadEight(from)), widenBF16(loadEight(from + 16))};
}

/// Also negated, since a lookup has room for the magnitudes of codes alone.
struct Powers {
  Lanes positive, negative;
};
inline __m256 widenE8M0(__m128i eight) {
  __m256i shifted = _mm256_slli_epi32(_mm256_cvtepu8_epi32(eight), 23);
  return _mm256_castsi256_ps(_mm256_max_epi32(shifted, _mm256_set1_epi32(0x00400000)));
}
inline Powers loadE8M0(const std::byte *from) {
  __m128i codes = loadEight(from);
  Lanes powers = {widenE8M0(codes), widenE8M0(_mm_unpackhi_epi64(codes, codes))};
  return {powers, negate(powers)};
}
struct E2M1Unit {
  __m256i low, high;
};
inline E2M1Unit loadE2M1(const std::byte *from) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from + 32))};
}
template <int kInput> inline __m256 valuesOf(__m256i codes, __m256 positive, __m256 negative) {
  // The lowest three bits of an index count; the fourth of the code is the sign.
  __m256 magnitudes = _mm256_permutevar8x32_ps(_mm256_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6),
                                               _mm256_srli_epi32(codes, 4 * kInput));
  __m256 signs = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28 - 4 * kInput));
  return _mm256_mul_ps(magnitudes, _mm256_blendv_ps(positive, negative, signs));
}
template <int kInput> inline Lanes valuesOf(const E2M1Unit &codes, const Powers &scales) {
  return {valuesOf<kInput>(codes.low, scales.positive.low, scales.negative.low),
          valuesOf<kInput>(codes.high, scales.positive.high, scales.negative.high)};
}

struct Magnitudes {
  __m256i v;
};
inline Magnitudes zeroMagnitudes() {
  return {_mm256_setzero_si256()};
}
inline Magnitudes largerMagnitudes(Magnitudes a, Lanes b) {
  __m256i mask = _mm256_set1_epi32(0x7fffffff);
  __m256i low = _mm256_and_si256(_mm256_castps_si256(b.low), mask);
  __m256i high = _mm256_and_si256(_mm256_castps_si256(b.high), mask);
  return {_mm256_max_epi32(a.v, _mm256_max_epi32(low, high))};
}
inline int32_t largestMagnitude(Magnitudes a) {
  __m128i by4 = _mm_max_epi32(_mm256_castsi256_si128(a.v), _mm256_extracti128_si256(a.v, 1));
  __m128i by2 = _mm_max_epi32(by4, _mm_shuffle_epi32(by4, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(by2, _mm_shuffle_epi32(by2, 0xb1)));
}

inline int32_t storeCodes(int8_t *to, Lanes a) {
  __m256i low = _mm256_cvtps_epi32(a.low), high = _mm256_cvtps_epi32(a.high);
  __m128i low16 = _mm_packs_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  __m128i high16 = _mm_packs_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm_packs_epi16(low16, high16));
  __m128i by8 = _mm_add_epi16(low16, high16);
  __m128i by4 = _mm_madd_epi16(by8, _mm_set1_epi16(1));
  __m128i by2 = _mm_add_epi32(by4, _mm_shuffle_epi32(by4, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(by2, _mm_shuffle_epi32(by2, 0xb1)));
}

} // namespace
} // namespace moert
