// The integer product of one group with ARMv8.2's dot products: sdot adds four products of signed
// bytes to an int32 for each of four outputs, and selects their four activations from a vector
// of 16. Exact.
#pragma once

#include "runtime/exec/cpu/UnitsNeon.h"

namespace moert {
namespace {

constexpr int kQuantizedRows = 4; // 4 registers of sums each.

template <typename P> constexpr int32_t centerOf() {
  return centerOfSigned<P>();
}

/// sum + the products with inputs 4 * lane to 4 * lane + 3. The lane is part of the instruction and
/// becomes a constant when the loops are unrolled.
inline int32x4_t addDots(int32x4_t sum, int8x16_t code, int8x16_t inputs, int lane) {
  switch (lane) {
  case 0:
    return vdotq_laneq_s32(sum, code, inputs, 0);
  case 1:
    return vdotq_laneq_s32(sum, code, inputs, 1);
  case 2:
    return vdotq_laneq_s32(sum, code, inputs, 2);
  default:
    return vdotq_laneq_s32(sum, code, inputs, 3);
  }
}

/// sums[r] = sum over the group of code * x[r].
template <typename P, int kGroup, int kRows>
inline void dotCodes(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                     QuarterSums *sums) {
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
          sums[r].q[quarter] = addDots(sums[r].q[quarter], signedCodes<P>(parts[part]),
                                       inputs[r][index / 4], index % 4);
      }
    }
  }
}

} // namespace
} // namespace moert

#include "runtime/exec/cpu/GroupNeon.h"
