// The stored codes of a quantized matrix in NEON, a quarter of a unit (four outputs times four
// bytes) at a time.
#pragma once

#include "runtime/exec/cpu/LanesNeon.h"

namespace moert {
namespace {

using Bytes = uint8x16_t;

template <int kBits> inline Bytes shiftLeft(Bytes bytes) {
  return vshlq_n_u8(bytes, kBits);
}
template <int kBits> inline Bytes shiftRight(Bytes bytes) {
  return vshrq_n_u8(bytes, kBits);
}
template <int kMask> inline Bytes keep(Bytes bytes) {
  return vandq_u8(bytes, vdupq_n_u8(kMask));
}
/// Bits of x where the mask is 1, of y elsewhere.
template <int kMask> inline Bytes choose(Bytes x, Bytes y) {
  return vbslq_u8(vdupq_n_u8(kMask), x, y);
}

/// table[code] of each byte; codes are below 16.
inline Bytes lookUp(const uint8_t *table, Bytes codes) {
  return vqtbl1q_u8(vld1q_u8(table), codes);
}

} // namespace
} // namespace moert

#include "runtime/exec/cpu/PlaneCodes.h"

namespace moert {
namespace {

/// Sums of a panel: of outputs 4 * i to 4 * i + 3 in q[i].
struct QuarterSums {
  int32x4_t q[4];
};

/// Loads the next P::kInputs inputs of a quarter of a panel. `step` counts such runs.
template <typename P>
inline void joinQuarter(const GroupCodes<P> &codes, int step, int quarter, Bytes *parts) {
  int taken[3] = {};
  auto take = [&](int plane) {
    // A plane with more bits has several units for the inputs of one unit of the narrowest plane.
    int units = P::kBitsOf[plane] / P::kFewest;
    int unit = step * units + taken[plane]++;
    return loadBytes(codes.planes[plane] + unit * 64 + quarter * 16);
  };
  joinCodes<P>(take, codes, parts);
}

/// A group's activation codes, 16 to a vector.
template <int kGroup, int kRows>
inline void loadInputs(const int8_t *x, uint64_t xStride, int8x16_t (*inputs)[kGroup / 16]) {
  for (int r = 0; r < kRows; ++r)
    for (int i = 0; i < kGroup / 16; ++i)
      inputs[r][i] = vld1q_s8(x + r * xStride + 16 * i);
}

/// The result of `dot` for a lane, which is part of the instruction and becomes a constant when the
/// loops are unrolled.
template <typename Dot> inline int32x4_t atLane(int lane, Dot dot) {
  switch (lane) {
  case 0:
    return dot.template operator()<0>();
  case 1:
    return dot.template operator()<1>();
  case 2:
    return dot.template operator()<2>();
  default:
    return dot.template operator()<3>();
  }
}

/// sums[r] = sum over the group of code * x[r]. addDots(sum, codes, inputs, lane) adds the products
/// with inputs 4 * lane to 4 * lane + 3 of 16.
template <typename P, int kGroup, int kRows, typename AddDots>
inline void dotByLanes(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                       QuarterSums *sums, AddDots addDots) {
  int8x16_t inputs[kRows][kGroup / 16];
  loadInputs<kGroup, kRows>(x, xStride, inputs);
  for (int r = 0; r < kRows; ++r)
    for (int32x4_t &quarter : sums[r].q)
      quarter = vdupq_n_s32(0);
#pragma GCC unroll 16
  for (int input = 0; input < kGroup; input += P::kInputs) {
#pragma GCC unroll 4
    for (int quarter = 0; quarter < 4; ++quarter) {
      Bytes parts[P::kParts];
      joinQuarter<P>(codes, input / P::kInputs, quarter, parts);
#pragma GCC unroll 8
      for (int part = 0; part < P::kParts; ++part) {
        int index = input / 4 + part;
        for (int r = 0; r < kRows; ++r)
          sums[r].q[quarter] =
              addDots(sums[r].q[quarter], parts[part], inputs[r][index / 4], index % 4);
      }
    }
  }
}

/// Codes as signed bytes, for instructions that accept no others: with fewer than 8 bits unchanged,
/// with 8 bits as q.
template <typename P> inline int8x16_t signedCodes(Bytes codes) {
  if constexpr (P::kProductBits == 8)
    codes = veorq_u8(codes, vdupq_n_u8(0x80));
  return vreinterpretq_s8_u8(codes);
}
/// The excess of these codes over q.
template <typename P> constexpr int32_t centerOfSigned() {
  return P::kProductBits == 8 ? 0 : 1 << (P::kProductBits - 1);
}

} // namespace
} // namespace moert
