// 16 lanes in AVX-512: the primitives from which the kernels of this directory are built.
// Lanes256.h has the same for AVX2, LanesNeon.h for NEON.
//
// Everything in this directory's headers has internal linkage and calls nothing that another file
// could compile too: the linker keeps one copy of a function that several files define, and that
// copy might use instructions that the processor lacks. A test checks this in the object files.
#pragma once

#include "runtime/exec/cpu/PanelBytes.h"

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

namespace moert {
namespace {

struct Lanes {
  __m512 v;
};

/// Sums of values that attention keeps in registers, over all heads that it computes together.
constexpr int kValueSums = 12;
/// Panels of a kept kind that are multiplied together with a single row: several sums are in
/// progress at once, and their codes and scales stay in registers.
constexpr int kKeptPanels = 4;

/// The first `count` of 16 lanes.
inline __mmask16 firstLanes(uint32_t count) {
  return static_cast<__mmask16>((1u << count) - 1);
}

inline Lanes zeroLanes() {
  return {_mm512_setzero_ps()};
}
inline Lanes splat(float x) {
  return {_mm512_set1_ps(x)};
}
inline Lanes load(const float *from) {
  return {_mm512_loadu_ps(from)};
}
/// The first `count` lanes from memory, the others 0. Reads nothing else.
inline Lanes loadFirst(const float *from, uint32_t count) {
  return {_mm512_maskz_loadu_ps(firstLanes(count), from)};
}
inline void store(float *to, Lanes a) {
  _mm512_storeu_ps(to, a.v);
}
/// Writes the first `count` lanes and nothing else.
inline void storeFirst(float *to, Lanes a, uint32_t count) {
  _mm512_mask_storeu_ps(to, firstLanes(count), a.v);
}

inline Lanes add(Lanes a, Lanes b) {
  return {_mm512_add_ps(a.v, b.v)};
}
inline Lanes subtract(Lanes a, Lanes b) {
  return {_mm512_sub_ps(a.v, b.v)};
}
inline Lanes multiply(Lanes a, Lanes b) {
  return {_mm512_mul_ps(a.v, b.v)};
}
inline Lanes divide(Lanes a, Lanes b) {
  return {_mm512_div_ps(a.v, b.v)};
}
/// a * b + c.
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm512_fmadd_ps(a.v, b.v, c.v)};
}
/// a * b + c in the first `count` lanes, c in the others: adding a zero product there would turn a
/// sum of -0 into +0.
inline Lanes fmaFirst(Lanes a, Lanes b, Lanes c, uint32_t count) {
  return {_mm512_mask3_fmadd_ps(a.v, b.v, c.v, firstLanes(count))};
}
/// a > b ? a : b, so b if either is NaN.
inline Lanes larger(Lanes a, Lanes b) {
  return {_mm512_max_ps(a.v, b.v)};
}
/// Each lane takes the value of the lane whose number differs in the bit kApart.
template <int kApart> inline Lanes exchange(Lanes a) {
  constexpr int kNext = 0xb1, kSecondNext = 0x4e; // Lanes, or quarters, (1, 0, 3, 2), (2, 3, 0, 1).
  if constexpr (kApart <= 2)
    return {_mm512_permute_ps(a.v, kApart == 1 ? kNext : kSecondNext)};
  else
    return {_mm512_shuffle_f32x4(a.v, a.v, kApart == 4 ? kNext : kSecondNext)};
}
inline Lanes negate(Lanes a) {
  return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))};
}

/// x in the lanes where a < b, y elsewhere.
inline Lanes whereLess(Lanes a, Lanes b, Lanes x, Lanes y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
/// x in the lanes where a is NaN, y elsewhere.
inline Lanes whereNaN(Lanes a, Lanes x, Lanes y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), y.v, x.v)};
}

/// a * 2^n, by adding n to the exponent, where n = shifted - shift as integers of their bits.
inline Lanes scaleByPower(Lanes a, Lanes shifted, Lanes shift) {
  __m512i n = _mm512_sub_epi32(_mm512_castps_si512(shifted.v), _mm512_castps_si512(shift.v));
  return {
      _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a.v), _mm512_slli_epi32(n, 23)))};
}

/// The sum of the lanes as the tree 8-4-2-1.
inline float treeSum(Lanes a) {
  __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

/// to[i] = treeSum(a[i]), four at once.
inline void treeSums4(const Lanes *a, float *to) {
  constexpr int kLows = 0x44, kHighs = 0xee; // Quarters (0, 1 | 0, 1) and (2, 3 | 2, 3).
  constexpr int kEven = 0x88, kOdd = 0xdd;   // Quarters (0, 2 | 0, 2) and (1, 3 | 1, 3).
  __m512 first = _mm512_add_ps(_mm512_shuffle_f32x4(a[0].v, a[1].v, kLows),
                               _mm512_shuffle_f32x4(a[0].v, a[1].v, kHighs));
  __m512 second = _mm512_add_ps(_mm512_shuffle_f32x4(a[2].v, a[3].v, kLows),
                                _mm512_shuffle_f32x4(a[2].v, a[3].v, kHighs));
  __m512 by4 = _mm512_add_ps(_mm512_shuffle_f32x4(first, second, kEven),
                             _mm512_shuffle_f32x4(first, second, kOdd));
  __m512 by2 = _mm512_add_ps(by4, _mm512_permute_ps(by4, 0x4e));
  __m512 by1 = _mm512_add_ps(by2, _mm512_permute_ps(by2, 0xb1));
  __m512i quarters = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_permutexvar_ps(quarters, by1)));
}

/// The largest of the 16 lanes, ignoring NaNs.
inline float largestLane(Lanes a) {
  return _mm512_reduce_max_ps(a.v);
}

/// 16 stored elements as f32.
inline Lanes loadF32(const std::byte *from) {
  return {_mm512_loadu_ps(from)};
}
inline Lanes loadF16(const std::byte *from) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(from)))};
}
/// Rounds to nearest even.
inline void storeF16(std::byte *to, Lanes a) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm512_cvtps_ph(a.v, kNearest));
}
/// The values of signed bytes.
inline Lanes toFloats(PanelBytes a) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(a.v))};
}
/// 16 f16 by their bytes.
inline Lanes widenF16(PanelBytes low, PanelBytes high) {
  return {_mm512_cvtph_ps(
      _mm256_set_m128i(_mm_unpackhi_epi8(low.v, high.v), _mm_unpacklo_epi8(low.v, high.v)))};
}
/// 16 signed bytes.
inline Lanes loadI8(const std::byte *from) {
  return toFloats(loadBytes(from));
}
inline Lanes loadBF16(const std::byte *from) {
  __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16))};
}

/// 16 scales of MXFP4: 2^(code - 127). 2^-127 is subnormal: its exponent field is 0.
struct Powers {
  __m512 v;
};
inline Powers loadE8M0(const std::byte *from) {
  __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)));
  return {_mm512_castsi512_ps(
      _mm512_max_epi32(_mm512_slli_epi32(codes, 23), _mm512_set1_epi32(0x00400000)))};
}
/// A unit of MXFP4 codes: 8 inputs of 16 outputs.
struct E2M1Unit {
  __m512i v;
};
inline E2M1Unit loadE2M1(const std::byte *from) {
  return {_mm512_loadu_si512(from)};
}
/// The values of one of the inputs, times the outputs' scales.
template <int kInput> inline Lanes valuesOf(E2M1Unit codes, Powers scales) {
  __m512 values =
      _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6);
  // The lowest four bits of an index count.
  __m512 found = _mm512_permutexvar_ps(_mm512_srli_epi32(codes.v, 4 * kInput), values);
  return {_mm512_mul_ps(found, scales.v)};
}

/// The largest magnitudes so far, per lane, compared as integers: NaN > infinity > all numbers.
struct Magnitudes {
  __m512i v;
};
inline Magnitudes zeroMagnitudes() {
  return {_mm512_setzero_si512()};
}
inline Magnitudes largerMagnitudes(Magnitudes a, Lanes b) {
  __m512i magnitudes = _mm512_and_si512(_mm512_castps_si512(b.v), _mm512_set1_epi32(0x7fffffff));
  return {_mm512_max_epi32(a.v, magnitudes)};
}
inline int32_t largestMagnitude(Magnitudes a) {
  return _mm512_reduce_max_epi32(a.v);
}

/// Rounds 16 values in [-127, 127] to nearest even, writes them as bytes and returns their sum.
inline int32_t storeCodes(int8_t *to, Lanes a) {
  __m512i codes = _mm512_cvtps_epi32(a.v);
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(codes));
  return _mm512_reduce_add_epi32(codes);
}

} // namespace
} // namespace moert
