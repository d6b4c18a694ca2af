// The integer product of one group in AVX2: vpmaddubsw adds two products of an unsigned and a
// signed byte to an int16, saturating, so saturation has to be excluded.
//   Up to 6 bits: the stored codes are used without conversion. A pair of 4-bit products is at most
//   2 * 15 * 127 = 3810, so 8 pairs fit in an int16; of 6 bits 16002, so 2 fit. The excess of
//   offset binary, 2^(bits-1) times the sum of the activation codes, is subtracted in int32. 8
//   bits: |q| is at most 128 and is the unsigned byte; the activation takes q's sign: a pair is at
//   most 2 * 128 * 127 = 32512. An activation code is never -128, which has no opposite.
#pragma once

#include "runtime/exec/cpu/Lanes256.h"

namespace moert {
namespace {

constexpr int kQuantizedRows = 4;
constexpr int kFloatRows = 4;

using Bytes = __m256i;

// Byte shifts are built from 16-bit shifts: the bits that come in from the neighbour are always
// masked off.
template <int kBits> inline Bytes shiftLeft(Bytes bytes) {
  return _mm256_slli_epi16(bytes, kBits);
}
template <int kBits> inline Bytes shiftRight(Bytes bytes) {
  return _mm256_srli_epi16(bytes, kBits);
}
template <int kMask> inline Bytes keep(Bytes bytes) {
  return _mm256_and_si256(bytes, _mm256_set1_epi8(static_cast<char>(kMask)));
}
/// Bits of x where the mask is 1, of y elsewhere.
template <int kMask> inline Bytes choose(Bytes x, Bytes y) {
  return _mm256_or_si256(keep<kMask>(x), keep<0xff & ~kMask>(y));
}

/// table[code] of each byte; codes are below 16.
inline Bytes lookUp(const uint8_t *table, Bytes codes) {
  __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i *>(table));
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(sixteen), codes);
}

} // namespace
} // namespace moert

#include "runtime/exec/cpu/PlaneCodes.h"

namespace moert {
namespace {

inline __m256i splatFour(const int8_t *codes) {
  int32_t four;
  __builtin_memcpy(&four, codes, sizeof four);
  return _mm256_set1_epi32(four);
}

inline __m256i loadHalfUnit(const std::byte *from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
}

/// Adds the two int16 sums of a lane to its int32 sum.
inline __m256i addWidened(__m256i sums, __m256i pairs) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/// Sums of outputs 0 to 7 and 8 to 15 of a panel.
struct HalfSums {
  __m256i low, high;
};

/// 8-bit codes times activations: exact in int16, as q.
inline __m256i multiplyByte(__m256i code, __m256i four) {
  __m256i q = _mm256_xor_si256(code, _mm256_set1_epi8(-128));
  return _mm256_maddubs_epi16(_mm256_abs_epi8(q), _mm256_sign_epi8(four, q));
}

/// Loads the codes of the next P::kInputs inputs for both halves of a panel. `step` counts such
/// runs.
template <typename P>
inline void joinHalves(const GroupCodes<P> &codes, int step, Bytes *low, Bytes *high) {
  for (int half = 0; half < 2; ++half) {
    int taken[3] = {};
    auto take = [&](int plane) {
      // A plane with more bits has several units for the inputs of one unit of the narrowest plane.
      int units = P::kBitsOf[plane] / P::kFewest;
      int unit = step * units + taken[plane]++;
      return loadHalfUnit(codes.planes[plane] + unit * 64 + half * 32);
    };
    joinCodes<P>(take, codes, half == 0 ? low : high);
  }
}

/// sums[r] += sum over the group of code * x[r]; with 8 bits, of q * x[r].
template <typename P, int kGroup, int kRows>
inline void dotCodes(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                     HalfSums *sums) {
  constexpr int kLargestPair =
      P::kProductBits == 8 ? 2 * 128 * 127 : 2 * ((1 << P::kProductBits) - 1) * 127;
  // Parts whose pairs are summed in int16.
  constexpr int kMost = INT16_MAX / kLargestPair;
  constexpr int kRun = kMost >= 8 ? 8 : kMost >= 2 ? 2 : 1;
  HalfSums pairs[kRows];
#pragma GCC unroll 16
  for (int input = 0; input < kGroup; input += P::kInputs) {
    Bytes low[P::kParts], high[P::kParts];
    joinHalves<P>(codes, input / P::kInputs, low, high);
#pragma GCC unroll 8
    for (int part = 0; part < P::kParts; ++part) {
      int place = (input / 4 + part) % kRun;
      bool isLast = place == kRun - 1 || input / 4 + part == kGroup / 4 - 1;
      for (int r = 0; r < kRows; ++r) {
        __m256i four = splatFour(x + r * xStride + input + 4 * part);
        HalfSums pair;
        if constexpr (P::kProductBits == 8)
          pair = {multiplyByte(low[part], four), multiplyByte(high[part], four)};
        else
          pair = {_mm256_maddubs_epi16(low[part], four), _mm256_maddubs_epi16(high[part], four)};
        pairs[r].low = place == 0 ? pair.low : _mm256_add_epi16(pairs[r].low, pair.low);
        pairs[r].high = place == 0 ? pair.high : _mm256_add_epi16(pairs[r].high, pair.high);
        if (isLast) {
          sums[r].low = addWidened(sums[r].low, pairs[r].low);
          sums[r].high = addWidened(sums[r].high, pairs[r].high);
        }
      }
    }
  }
}

/// products[r] = f32(sum over the group of q * x[r]); xSums[r * sumsStride] is the sum of x[r].
template <typename P, int kGroup, int kRows>
inline void dotGroup(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                     const int32_t *xSums, uint64_t sumsStride, Lanes *products) {
  HalfSums sums[kRows];
  for (int r = 0; r < kRows; ++r) {
    // Not a shift: the sum may be negative.
    int32_t start =
        P::kProductBits == 8 ? 0 : -xSums[r * sumsStride] * (1 << (P::kProductBits - 1));
    sums[r] = {_mm256_set1_epi32(start), _mm256_set1_epi32(start)};
  }
  dotCodes<P, kGroup, kRows>(codes, x, xStride, sums);
  for (int r = 0; r < kRows; ++r)
    products[r] = {_mm256_cvtepi32_ps(sums[r].low), _mm256_cvtepi32_ps(sums[r].high)};
}

/// The same with the number of steps known only at run time, for codes of fewer than 8 bits.
template <typename P, int kGroup, int kRows>
inline void dotGroupOnGrid(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                           const int32_t *xSums, uint64_t sumsStride, const GridSteps &steps,
                           Lanes *products) {
  static_assert(P::kProductBits < 8);
  __m128i shift = _mm_cvtsi32_si128(steps.shift);
  HalfSums sums[kRows] = {};
  dotCodes<P, kGroup, kRows>(codes, x, xStride, sums);
  for (int r = 0; r < kRows; ++r) {
    __m256i center = _mm256_set1_epi32(xSums[r * sumsStride] * steps.center);
    __m256i low = _mm256_add_epi32(_mm256_sll_epi32(sums[r].low, shift), center);
    __m256i high = _mm256_add_epi32(_mm256_sll_epi32(sums[r].high, shift), center);
    products[r] = {_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)};
  }
}

} // namespace
} // namespace moert
