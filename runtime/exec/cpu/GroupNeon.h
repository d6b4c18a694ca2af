// The product of one group from its integer sums. Included after the dotCodes and centerOf of
// DotNeon.h, DotDotprod.h or DotI8mm.h; centerOf is the excess of that file's codes over q.
#pragma once

namespace moert {
namespace {

/// products[r] = f32(sum over the group of q * x[r]); xSums[r * sumsStride] is the sum of x[r].
template <typename P, int kGroup, int kRows>
inline void dotGroup(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                     const int32_t *xSums, uint64_t sumsStride, Lanes *products) {
  QuarterSums sums[kRows];
  dotCodes<P, kGroup, kRows>(codes, x, xStride, sums);
  for (int r = 0; r < kRows; ++r) {
    int32x4_t center = vdupq_n_s32(xSums[r * sumsStride] * centerOf<P>());
    products[r] = perQuarter([&](int i) { return vcvtq_f32_s32(vsubq_s32(sums[r].q[i], center)); });
  }
}

/// The same with the number of steps known only at run time, for codes of fewer than 8 bits.
template <typename P, int kGroup, int kRows>
inline void dotGroupOnGrid(const GroupCodes<P> &codes, const int8_t *x, uint64_t xStride,
                           const int32_t *xSums, uint64_t sumsStride, const GridSteps &steps,
                           Lanes *products) {
  static_assert(P::kProductBits < 8);
  int32x4_t shift = vdupq_n_s32(steps.shift);
  QuarterSums sums[kRows];
  dotCodes<P, kGroup, kRows>(codes, x, xStride, sums);
  for (int r = 0; r < kRows; ++r) {
    int32x4_t center = vdupq_n_s32(xSums[r * sumsStride] * steps.center);
    products[r] = perQuarter(
        [&](int i) { return vcvtq_f32_s32(vaddq_s32(vshlq_s32(sums[r].q[i], shift), center)); });
  }
}

} // namespace
} // namespace moert
