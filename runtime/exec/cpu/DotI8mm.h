// The integer product of one group with the integer matrix products of ARMv8.6 (i8mm), which accept
// unsigned codes as stored, also of 8 bits: usmmla adds the products of two outputs and two rows,
// eight inputs each, to four int32. A single row uses usdot. Exact.
#pragma once

#include "runtime/exec/cpu/UnitsNeon.h"

namespace moert {
namespace {

constexpr int kQuantizedRows = 8; // Rows that share unpacked codes.

template <typename P> constexpr int32_t centerOf() {
  return 1 << (P::kProductBits - 1);
}

/// The codes of two outputs, eight inputs each, from those of four outputs and four inputs.
inline Bytes firstOutputs(Bytes fourInputs, Bytes nextFour) {
  return vreinterpretq_u8_u32(
      vzip1q_u32(vreinterpretq_u32_u8(fourInputs), vreinterpretq_u32_u8(nextFour)));
}
inline Bytes lastOutputs(Bytes fourInputs, Bytes nextFour) {
  return vreinterpretq_u8_u32(
      vzip2q_u32(vreinterpretq_u32_u8(fourInputs), vreinterpretq_u32_u8(nextFour)));
}

/// sums[r] = sum over the group of code * x[r]. One quarter of a panel at a time: a whole panel
/// times eight rows would need all registers.
template <typename P, int kGroup, int kRows>
inline void dotCodes(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                     QuarterSums *sums) {
  if constexpr (kRows == 1) {
    dotByLanes<P, kGroup, 1>(
        codes, x, xStride, sums, [](int32x4_t sum, Bytes code, int8x16_t inputs, int lane) {
          return atLane(lane,
                        [&]<int kLane>() { return vusdotq_laneq_s32(sum, code, inputs, kLane); });
        });
  } else {
    constexpr int kPairs = kRows / 2;
    // Two rows of eight inputs each.
    int8x16_t inputs[kPairs][kGroup / 8];
    for (int pair = 0; pair < kPairs; ++pair)
      for (int i = 0; i < kGroup / 8; ++i) {
        const int8_t *from = x + 2 * pair * xStride + 8 * i;
        inputs[pair][i] = vcombine_s8(vld1_s8(from), vld1_s8(from + xStride));
      }
    // 8-bit codes come in units of four inputs.
    constexpr int kSteps = P::kInputs < 8 ? 2 : 1;
    constexpr int kParts = kSteps * P::kParts;
    for (int quarter = 0; quarter < 4; ++quarter) {
      // Outputs 0 and 1, 2 and 3; each with the two rows side by side.
      int32x4_t first[kPairs], last[kPairs];
      for (int pair = 0; pair < kPairs; ++pair)
        first[pair] = last[pair] = vdupq_n_s32(0);
#pragma GCC unroll 8
      for (int input = 0; input < kGroup; input += kSteps * P::kInputs) {
        Bytes parts[kParts];
        for (int step = 0; step < kSteps; ++step)
          joinQuarter<P>(codes, input / P::kInputs + step, quarter, parts + step * P::kParts);
#pragma GCC unroll 4
        for (int part = 0; part < kParts; part += 2) {
          Bytes firstTwo = firstOutputs(parts[part], parts[part + 1]);
          Bytes lastTwo = lastOutputs(parts[part], parts[part + 1]);
          for (int pair = 0; pair < kPairs; ++pair) {
            int8x16_t rows = inputs[pair][(input + 4 * part) / 8];
            first[pair] = vusmmlaq_s32(first[pair], firstTwo, rows);
            last[pair] = vusmmlaq_s32(last[pair], lastTwo, rows);
          }
        }
      }
      for (int pair = 0; pair < kPairs; ++pair) {
        sums[2 * pair].q[quarter] = vuzp1q_s32(first[pair], last[pair]);
        sums[2 * pair + 1].q[quarter] = vuzp2q_s32(first[pair], last[pair]);
      }
    }
  }
}

} // namespace
} // namespace moert

#include "runtime/exec/cpu/GroupNeon.h"
