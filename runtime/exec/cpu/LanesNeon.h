// 16 lanes in NEON, as four quarters; Lanes512.h documents each function and why everything here
// has internal linkage. Fused products use vfma explicitly: GCC's vmla intrinsics are separate
// products and sums, which only -ffp-contract=off keeps from being fused.
#pragma once

#include <arm_neon.h>
#include <cstddef>
#include <cstdint>

namespace moert {
namespace {

struct Lanes {
  float32x4_t q[4];
};

constexpr int kValueSums = 6; // Out of 8 times four registers; the others hold values and weights.
constexpr int kFloatRows = 4;
constexpr int kKeptPanels = 2;

/// Applies to one quarter after the other.
template <typename Apply> inline Lanes perQuarter(Apply apply) {
  return {{apply(0), apply(1), apply(2), apply(3)}};
}

/// All ones in the lanes of quarter i that are among the first `count` of all.
inline uint32x4_t firstLanes(uint32_t count, int i) {
  constexpr uint32_t kIndex[4] = {0, 1, 2, 3};
  uint32x4_t index = vaddq_u32(vld1q_u32(kIndex), vdupq_n_u32(4 * static_cast<uint32_t>(i)));
  return vcltq_u32(index, vdupq_n_u32(count));
}

inline Lanes splat(float x) {
  return perQuarter([&](int) { return vdupq_n_f32(x); });
}
inline Lanes zeroLanes() {
  return splat(0.0f);
}
inline Lanes load(const float *from) {
  return perQuarter([&](int i) { return vld1q_f32(from + 4 * i); });
}
inline Lanes loadFirst(const float *from, uint32_t count) {
  float lanes[16] = {};
  for (uint32_t i = 0; i < count; ++i)
    lanes[i] = from[i];
  return load(lanes);
}
inline void store(float *to, Lanes a) {
  for (int i = 0; i < 4; ++i)
    vst1q_f32(to + 4 * i, a.q[i]);
}
inline void storeFirst(float *to, Lanes a, uint32_t count) {
  float lanes[16];
  store(lanes, a);
  for (uint32_t i = 0; i < count; ++i)
    to[i] = lanes[i];
}

inline Lanes add(Lanes a, Lanes b) {
  return perQuarter([&](int i) { return vaddq_f32(a.q[i], b.q[i]); });
}
inline Lanes subtract(Lanes a, Lanes b) {
  return perQuarter([&](int i) { return vsubq_f32(a.q[i], b.q[i]); });
}
inline Lanes multiply(Lanes a, Lanes b) {
  return perQuarter([&](int i) { return vmulq_f32(a.q[i], b.q[i]); });
}
inline Lanes divide(Lanes a, Lanes b) {
  return perQuarter([&](int i) { return vdivq_f32(a.q[i], b.q[i]); });
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return perQuarter([&](int i) { return vfmaq_f32(c.q[i], a.q[i], b.q[i]); });
}
inline Lanes fmaFirst(Lanes a, Lanes b, Lanes c, uint32_t count) {
  Lanes sum = fma(a, b, c);
  return perQuarter([&](int i) { return vbslq_f32(firstLanes(count, i), sum.q[i], c.q[i]); });
}
/// Not NEON's own maximum, which is NaN if either operand is.
inline Lanes larger(Lanes a, Lanes b) {
  return perQuarter([&](int i) { return vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]); });
}
template <int kApart> inline Lanes exchange(Lanes a) {
  return perQuarter([&](int i) {
    if constexpr (kApart == 1)
      return vrev64q_f32(a.q[i]);
    else if constexpr (kApart == 2)
      return vextq_f32(a.q[i], a.q[i], 2);
    else
      return a.q[i ^ (kApart / 4)];
  });
}
inline Lanes negate(Lanes a) {
  return perQuarter([&](int i) { return vnegq_f32(a.q[i]); });
}

inline Lanes whereLess(Lanes a, Lanes b, Lanes x, Lanes y) {
  return perQuarter([&](int i) { return vbslq_f32(vcltq_f32(a.q[i], b.q[i]), x.q[i], y.q[i]); });
}
inline Lanes whereNaN(Lanes a, Lanes x, Lanes y) {
  return perQuarter([&](int i) { return vbslq_f32(vceqq_f32(a.q[i], a.q[i]), y.q[i], x.q[i]); });
}

inline Lanes scaleByPower(Lanes a, Lanes shifted, Lanes shift) {
  return perQuarter([&](int i) {
    int32x4_t n = vsubq_s32(vreinterpretq_s32_f32(shifted.q[i]), vreinterpretq_s32_f32(shift.q[i]));
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a.q[i]), vshlq_n_s32(n, 23)));
  });
}

/// The first two steps of the tree: lanes i, i + 4, i + 8 and i + 12 summed.
inline float32x4_t treeSumBy4(Lanes a) {
  return vaddq_f32(vaddq_f32(a.q[0], a.q[2]), vaddq_f32(a.q[1], a.q[3]));
}
inline float treeSum(Lanes a) {
  float32x4_t by4 = treeSumBy4(a);
  return vpadds_f32(vadd_f32(vget_low_f32(by4), vget_high_f32(by4)));
}
inline void treeSums4(const Lanes *a, float *to) {
  // Lanes (0, 1) and (2, 3) of two sums side by side.
  float32x4_t by2[2];
  for (int i = 0; i < 2; ++i) {
    float32x4_t even = treeSumBy4(a[2 * i]), odd = treeSumBy4(a[2 * i + 1]);
    by2[i] = vaddq_f32(vcombine_f32(vget_low_f32(even), vget_low_f32(odd)),
                       vcombine_f32(vget_high_f32(even), vget_high_f32(odd)));
  }
  vst1q_f32(to, vpaddq_f32(by2[0], by2[1]));
}

inline float largestLane(Lanes a) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.q[0], a.q[1]), vmaxq_f32(a.q[2], a.q[3])));
}

/// PanelBytes.h documents what is made of them.
using PanelBytes = uint8x16_t;

/// 16 bytes from any address.
inline PanelBytes loadBytes(const std::byte *from) {
  return vld1q_u8(reinterpret_cast<const uint8_t *>(from));
}
inline PanelBytes field(PanelBytes a, uint32_t shift, uint8_t mask) {
  return vandq_u8(vshlq_u8(a, vdupq_n_s8(static_cast<int8_t>(-static_cast<int>(shift)))),
                  vdupq_n_u8(mask));
}
inline PanelBytes raised(PanelBytes a, uint32_t shift) {
  return vshlq_u8(a, vdupq_n_s8(static_cast<int8_t>(shift)));
}
inline PanelBytes either(PanelBytes a, PanelBytes b) {
  return vorrq_u8(a, b);
}
inline PanelBytes minus(PanelBytes a, uint8_t b) {
  return vsubq_u8(a, vdupq_n_u8(b));
}
inline PanelBytes lookUp(PanelBytes table, PanelBytes index) {
  return vqtbl1q_u8(table, index);
}
inline Lanes loadF32(const std::byte *from) {
  return perQuarter([&](int i) { return vreinterpretq_f32_u8(loadBytes(from + 16 * i)); });
}
inline Lanes widenHalves(PanelBytes first, PanelBytes second) {
  float16x8_t low = vreinterpretq_f16_u8(first), high = vreinterpretq_f16_u8(second);
  return {{vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low),
           vcvt_f32_f16(vget_low_f16(high)), vcvt_high_f32_f16(high)}};
}
inline Lanes loadF16(const std::byte *from) {
  return widenHalves(loadBytes(from), loadBytes(from + 16));
}
inline Lanes widenF16(PanelBytes low, PanelBytes high) {
  return widenHalves(vzip1q_u8(low, high), vzip2q_u8(low, high));
}
inline void storeF16(std::byte *to, Lanes a) {
  for (int i = 0; i < 4; ++i)
    vst1_u8(reinterpret_cast<uint8_t *>(to) + 8 * i, vreinterpret_u8_f16(vcvt_f16_f32(a.q[i])));
}
inline Lanes toFloats(PanelBytes a) {
  int8x16_t bytes = vreinterpretq_s8_u8(a);
  int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_high_s16(low)),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_high_s16(high))}};
}
inline Lanes loadI8(const std::byte *from) {
  return toFloats(loadBytes(from));
}
inline Lanes loadBF16(const std::byte *from) {
  uint16x8_t low = vreinterpretq_u16_u8(loadBytes(from));
  uint16x8_t high = vreinterpretq_u16_u8(loadBytes(from + 16));
  return {{vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(low), 16)),
           vreinterpretq_f32_u32(vshll_high_n_u16(low, 16)),
           vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high), 16)),
           vreinterpretq_f32_u32(vshll_high_n_u16(high, 16))}};
}

struct Powers {
  Lanes v;
};
inline Powers loadE8M0(const std::byte *from) {
  uint8x16_t codes = loadBytes(from);
  uint16x8_t halves[2] = {vmovl_u8(vget_low_u8(codes)), vmovl_high_u8(codes)};
  return {perQuarter([&](int i) {
    uint16x8_t half = halves[i / 2];
    uint32x4_t wide = i % 2 == 0 ? vmovl_u16(vget_low_u16(half)) : vmovl_high_u16(half);
    return vreinterpretq_f32_u32(vmaxq_u32(vshlq_n_u32(wide, 23), vdupq_n_u32(0x00400000)));
  })};
}
/// Register i has byte i of each output's four.
struct E2M1Unit {
  uint8x16x4_t v;
};
inline E2M1Unit loadE2M1(const std::byte *from) {
  return {vld4q_u8(reinterpret_cast<const uint8_t *>(from))};
}
/// A code's f16 has a lower byte of 0, and its upper byte is looked up.
template <int kInput> inline Lanes valuesOf(const E2M1Unit &codes, const Powers &scales) {
  constexpr uint8_t kUppers[16] = {0x00, 0x38, 0x3c, 0x3e, 0x40, 0x42, 0x44, 0x46,
                                   0x80, 0xb8, 0xbc, 0xbe, 0xc0, 0xc2, 0xc4, 0xc6};
  uint8x16_t both = codes.v.val[kInput / 2], zero = vdupq_n_u8(0);
  uint8x16_t code = kInput % 2 == 0 ? vandq_u8(both, vdupq_n_u8(0x0f)) : vshrq_n_u8(both, 4);
  uint8x16_t upper = vqtbl1q_u8(vld1q_u8(kUppers), code);
  return multiply(widenF16(zero, upper), scales.v);
}

struct Magnitudes {
  int32x4_t v;
};
inline Magnitudes zeroMagnitudes() {
  return {vdupq_n_s32(0)};
}
inline Magnitudes largerMagnitudes(Magnitudes a, Lanes b) {
  for (float32x4_t quarter : b.q)
    a.v = vmaxq_s32(a.v, vandq_s32(vreinterpretq_s32_f32(quarter), vdupq_n_s32(0x7fffffff)));
  return a;
}
inline int32_t largestMagnitude(Magnitudes a) {
  return vmaxvq_s32(a.v);
}

inline int32_t storeCodes(int8_t *to, Lanes a) {
  int32x4_t codes[4];
  for (int i = 0; i < 4; ++i)
    codes[i] = vcvtnq_s32_f32(a.q[i]);
  int16x8_t low = vcombine_s16(vmovn_s32(codes[0]), vmovn_s32(codes[1]));
  int16x8_t high = vcombine_s16(vmovn_s32(codes[2]), vmovn_s32(codes[3]));
  vst1q_s8(to, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
  return vaddlvq_s16(vaddq_s16(low, high));
}

} // namespace
} // namespace moert
