// The integer product of one group in ARMv8-A's base NEON: products of two signed bytes as int16,
// summed there as long as they fit. Of codes of up to 6 bits, used as stored, 4 or more products
// fit; of 8 bits, as q, 2: 2 * 128 * 127 = 32512.
#pragma once

#include "runtime/exec/cpu/UnitsNeon.h"

namespace moert {
namespace {

constexpr int kQuantizedRows = 4;

template <typename P> constexpr int32_t centerOf() {
  return centerOfSigned<P>();
}

/// Four activation codes, repeated.
inline int8x16_t splatFour(const int8_t *codes) {
  int32_t four;
  __builtin_memcpy(&four, codes, sizeof four);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}

/// Products of four outputs and four inputs each: of outputs 0 and 1, and of 2 and 3.
struct Pairs {
  int16x8_t low, high;
};

/// sums[r] = sum over the group of code * x[r]. One quarter of a panel at a time: a whole panel
/// would need more registers than exist.
template <typename P, int kGroup, int kRows>
inline void dotCodes(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                     QuarterSums *sums) {
  constexpr int kLargest = P::kProductBits == 8 ? 128 * 127 : ((1 << P::kProductBits) - 1) * 127;
  constexpr int kRun = INT16_MAX / kLargest; // Parts whose products are summed in int16.
  for (int quarter = 0; quarter < 4; ++quarter) {
    int32x4_t totals[kRows];
    for (int r = 0; r < kRows; ++r)
      totals[r] = vdupq_n_s32(0);
    Pairs pairs[kRows];
#pragma GCC unroll 16
    for (int input = 0; input < kGroup; input += P::kInputs) {
      Bytes parts[P::kParts];
      joinQuarter<P>(codes, input / P::kInputs, quarter, parts);
#pragma GCC unroll 8
      for (int part = 0; part < P::kParts; ++part) {
        int index = input / 4 + part;
        bool isFirst = index % kRun == 0;
        bool isLast = index % kRun == kRun - 1 || index == kGroup / 4 - 1;
        int8x16_t code = signedCodes<P>(parts[part]);
        for (int r = 0; r < kRows; ++r) {
          int8x16_t four = splatFour(x + r * xStride + 4 * index);
          Pairs &sum = pairs[r];
          sum.low = isFirst ? vmull_s8(vget_low_s8(code), vget_low_s8(four))
                            : vmlal_s8(sum.low, vget_low_s8(code), vget_low_s8(four));
          sum.high = isFirst ? vmull_high_s8(code, four) : vmlal_high_s8(sum.high, code, four);
          if (isLast)
            totals[r] =
                vaddq_s32(totals[r], vpaddq_s32(vpaddlq_s16(sum.low), vpaddlq_s16(sum.high)));
        }
      }
    }
    for (int r = 0; r < kRows; ++r)
      sums[r].q[quarter] = totals[r];
  }
}

} // namespace
} // namespace moert

#include "runtime/exec/cpu/GroupNeon.h"
