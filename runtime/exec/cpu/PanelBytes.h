// 16 bytes, one for each output of a panel, in SSE registers: what blocks of codes are decoded with
// (LinearBlocks.h). LanesNeon.h has the same for NEON. Included by Lanes256.h and Lanes512.h, which
// widen them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

namespace moert {
namespace {

struct PanelBytes {
  __m128i v;
};

inline PanelBytes loadBytes(const std::byte *from) {
  return {_mm_loadu_si128(reinterpret_cast<const __m128i *>(from))};
}
/// bytes >> shift & mask; mask has at most 8 - shift bits.
inline PanelBytes field(PanelBytes a, uint32_t shift, uint8_t mask) {
  return {_mm_and_si128(_mm_srl_epi16(a.v, _mm_cvtsi32_si128(static_cast<int>(shift))),
                        _mm_set1_epi8(static_cast<char>(mask)))};
}
/// bytes << shift, of which none exceeds a byte.
inline PanelBytes raised(PanelBytes a, uint32_t shift) {
  return {_mm_sll_epi16(a.v, _mm_cvtsi32_si128(static_cast<int>(shift)))};
}
inline PanelBytes either(PanelBytes a, PanelBytes b) {
  return {_mm_or_si128(a.v, b.v)};
}
inline PanelBytes minus(PanelBytes a, uint8_t b) {
  return {_mm_sub_epi8(a.v, _mm_set1_epi8(static_cast<char>(b)))};
}
/// table[index] for indexes below 16.
inline PanelBytes lookUp(PanelBytes table, PanelBytes index) {
  return {_mm_shuffle_epi8(table.v, index.v)};
}

} // namespace
} // namespace moert
