// The integer product of one group in AVX2: vpmaddubsw adds two products of an unsigned and a
// signed byte to an int16, saturating, which must never happen.
//   int4: the stored codes are at most 15, so that a pair is at most 2 * 15 * 127 = 3810 and 8
//   pairs fit in an int16; int2 with 3 fits 42. What the offset binary adds, 2^(bits-1) times the
//   sum of the activation codes, is taken off in int32. int8: |q| is at most 128 and takes the
//   place of the unsigned byte, the activation takes q's sign: a pair is at most 2 * 128 * 127 =
//   32512. An activation code is never -128, which has no opposite.
#pragma once

#include "runtime/kernels/cpu/Lanes256.h"

namespace moert {
namespace {

constexpr int kQuantizedRows = 4;
constexpr int kFloatRows = 4;

inline __m256i splatFour(const int8_t *codes) {
  int32_t four;
  __builtin_memcpy(&four, codes, sizeof four);
  return _mm256_set1_epi32(four);
}

inline __m256i loadHalfUnit(const std::byte *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}

/// The codes of 4 inputs for each of 8 outputs, one byte a code: part `part` of a half of a unit.
template <int kBits> inline __m256i unpack(__m256i half, int part) {
  __m256i shifted = _mm256_srli_epi16(half, part * kBits);
  return _mm256_and_si256(shifted, _mm256_set1_epi8((1 << kBits) - 1));
}

/// Two int16 sums of a lane to its int32 sum.
inline __m256i addWidened(__m256i sums, __m256i pairs) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

struct HalfSums {
  __m256i low, high;
};

template <int kGroup, int kRows>
inline void addBytes(const std::byte *codes, const int8_t *x, uint64_t xStride, HalfSums *sums) {
  __m256i signBit = _mm256_set1_epi8(-128);
#pragma GCC unroll 16
  for (int input = 0; input < kGroup; input += 4) {
    __m256i low = _mm256_xor_si256(loadHalfUnit(codes + input * 16), signBit);
    __m256i high = _mm256_xor_si256(loadHalfUnit(codes + input * 16 + 32), signBit);
    __m256i absLow = _mm256_abs_epi8(low), absHigh = _mm256_abs_epi8(high);
    for (int r = 0; r < kRows; ++r) {
      __m256i four = splatFour(x + r * xStride + input);
      sums[r].low =
          addWidened(sums[r].low, _mm256_maddubs_epi16(absLow, _mm256_sign_epi8(four, low)));
      sums[r].high =
          addWidened(sums[r].high, _mm256_maddubs_epi16(absHigh, _mm256_sign_epi8(four, high)));
    }
  }
}

/// kInputs inputs of int4 or int2, few enough for int16 sums.
template <int kBits, int kInputs, int kRows>
inline void addSmallCodes(const std::byte *codes, const int8_t *x, uint64_t xStride,
                          HalfSums *sums) {
  constexpr int kParts = 8 / kBits;
  static_assert(kInputs / 4 * 2 * ((1 << kBits) - 1) * 127 <= INT16_MAX);
  HalfSums pairs[kRows];
  for (int r = 0; r < kRows; ++r)
    pairs[r] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
#pragma GCC unroll 16
  for (int input = 0; input < kInputs; input += 4) {
    const std::byte *unit = codes + input / (4 * kParts) * 64;
    int part = input / 4 % kParts;
    __m256i low = unpack<kBits>(loadHalfUnit(unit), part);
    __m256i high = unpack<kBits>(loadHalfUnit(unit + 32), part);
    for (int r = 0; r < kRows; ++r) {
      __m256i four = splatFour(x + r * xStride + input);
      pairs[r].low = _mm256_add_epi16(pairs[r].low, _mm256_maddubs_epi16(low, four));
      pairs[r].high = _mm256_add_epi16(pairs[r].high, _mm256_maddubs_epi16(high, four));
    }
  }
  for (int r = 0; r < kRows; ++r) {
    sums[r].low = addWidened(sums[r].low, pairs[r].low);
    sums[r].high = addWidened(sums[r].high, pairs[r].high);
  }
}

/// products[r] = f32(sum over the group of q * x[r]); xSums[r * sumsStride] is the sum of x[r].
template <int kBits, int kGroup, int kRows>
inline void dotGroup(const std::byte *codes, const int8_t *x, uint64_t xStride,
                     const int32_t *xSums, uint64_t sumsStride, Lanes *products) {
  HalfSums sums[kRows];
  for (int r = 0; r < kRows; ++r) {
    int32_t start = kBits == 8 ? 0 : -(xSums[r * sumsStride] << (kBits - 1));
    sums[r] = {_mm256_set1_epi32(start), _mm256_set1_epi32(start)};
  }
  if constexpr (kBits == 8) {
    addBytes<kGroup, kRows>(codes, x, xStride, sums);
  } else {
    constexpr int kInputs = kGroup < 32 ? kGroup : 32;
    for (int input = 0; input < kGroup; input += kInputs)
      addSmallCodes<kBits, kInputs, kRows>(codes + input * kPanelRows * kBits / 8, x + input,
                                           xStride, sums);
  }
  for (int r = 0; r < kRows; ++r)
    products[r] = {_mm256_cvtepi32_ps(sums[r].low), _mm256_cvtepi32_ps(sums[r].high)};
}

} // namespace
} // namespace moert
