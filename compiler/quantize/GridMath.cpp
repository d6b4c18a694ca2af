#include "compiler/quantize/GridMath.h"

#include <cmath>

namespace moec {

// The f16 nearest to scale; the next larger one where rounding down would clip the largest code by
// more than half a step, which happens only among f16's subnormal numbers.
static uint16_t roundScale(float scale, float largest, float largestCode) {
  uint16_t bits = moert::f32ToF16(scale);
  if (largest > (largestCode + 0.5f) * std::fabs(moert::f16ToF32(bits)))
    ++bits;
  return bits;
}

GroupScale nearestScaleOf(float low, float high, const Grid &grid) {
  GroupScale result;
  if (low == 0 && high == 0)
    return result;
  if (grid.hasOffsets) {
    // Halves first: max - min itself may overflow.
    const float halfRange = high * 0.5f - low * 0.5f;
    const float steps = float((1 << grid.bits) - 1);
    result.scaleBits = roundScale(halfRange / steps * 2, halfRange * 2, steps);
    const float offset = (low * 0.5f + high * 0.5f) + moert::f16ToF32(result.scaleBits) * 0.5f;
    result.offsetBits = moert::f32ToF16(result.scaleBits == 0 ? low : offset);
    return result;
  }
  const CodeRange range = codeRangeOf(grid);
  const float extreme = -low >= high ? low : high;
  const bool isSymmetric8 = range.low == -range.high;
  const float codes = isSymmetric8 ? range.high : range.low;
  const float scale = isSymmetric8 ? std::fabs(extreme) / codes : extreme / codes;
  result.scaleBits = roundScale(scale, std::fabs(extreme), std::fabs(codes));
  return result;
}

} // namespace moec
