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

int32_t nearestByteOf(float scale, float rowScale) {
  if (rowScale == 0 || scale == 0)
    return 0;
  const float bytes = roundToEven(std::fabs(scale) / rowScale);
  const int32_t limited = bytes < 1                          ? 1
                          : bytes > float(kLargestByteScale) ? kLargestByteScale
                                                             : int32_t(bytes);
  return scale < 0 ? -limited : limited;
}

float exactNearestScaleOf(float low, float high, const Grid &grid) {
  const CodeRange range = codeRangeOf(grid);
  const float extreme = -low >= high ? low : high;
  const bool isSymmetric8 = range.low == -range.high;
  return isSymmetric8 ? std::fabs(extreme) / range.high : extreme / range.low;
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
  const float largest = -low >= high ? -low : high;
  const float codes = range.low == -range.high ? range.high : -range.low;
  result.scaleBits = roundScale(exactNearestScaleOf(low, high, grid), largest, codes);
  return result;
}

} // namespace moec
