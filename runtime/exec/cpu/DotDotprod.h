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

/// sums[r] = sum over the group of code * x[r].
template <typename P, int kGroup, int kRows>
inline void dotCodes(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                     QuarterSums *sums) {
  dotByLanes<P, kGroup, kRows>(codes, x, xStride, sums,
                               [](int32x4_t sum, Bytes code, int8x16_t inputs, int lane) {
                                 return atLane(lane, [&]<int kLane>() {
                                   return vdotq_laneq_s32(sum, signedCodes<P>(code), inputs, kLane);
                                 });
                               });
}

} // namespace
} // namespace moert

#include "runtime/exec/cpu/GroupNeon.h"
