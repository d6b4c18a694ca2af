// Quantizes activations to int8, group by group.
#include "runtime/exec/reference/Reference.h"

#include "runtime/exec/Hadamard.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace moert::reference {

// The largest magnitude of a group. Any NaN makes it the quiet NaN without payload, so that the
// scale has the same bits in any order of elements.
static float largestMagnitude(const float *x, uint32_t count) {
  float largest = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (std::isnan(x[i]))
      return std::numeric_limits<float>::quiet_NaN();
    if (std::fabs(x[i]) > largest)
      largest = std::fabs(x[i]);
  }
  return largest;
}

static int8_t codeOf(float x, float scale) {
  // Only a subnormal scale, which is itself rounded, can put the quotient out of range.
  float quotient = x / scale;
  if (quotient > 127)
    quotient = 127;
  if (quotient < -127)
    quotient = -127;
  return static_cast<int8_t>(std::nearbyint(quotient));
}

// Inputs [first, first + count), transformed.
static void readInputs(const float *x, uint32_t first, uint32_t count, uint32_t block,
                       float *values) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t place = (first + i) % block;
    float whole[kMaxHadamardBlock];
    std::copy_n(x + first + i - place, block, whole);
    hadamard(std::span(whole, block), hadamardInputFactor(block));
    values[i] = whole[place];
  }
}

void quantizeRows(const float *x, uint64_t xStride, uint32_t rows, uint32_t cols,
                  const QuantizedRows &out) {
  float values[kMaxHadamardBlock]; // A group.
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t group = 0; group < out.cols / out.group; ++group) {
      uint32_t first = group * out.group;
      uint32_t real = first >= cols ? 0 : cols - first;
      if (real > out.group)
        real = out.group;
      readInputs(x + row * xStride, first, real, out.hadamardBlock, values);
      int8_t *codes = out.codes + row * out.codesStride + first;

      float scale = largestMagnitude(values, real) / 127.0f;
      bool isUsable = scale > 0 && scale < std::numeric_limits<float>::infinity();
      int32_t sum = 0;
      for (uint32_t i = 0; i < out.group; ++i) {
        codes[i] = isUsable && i < real ? codeOf(values[i], scale) : int8_t(0);
        sum += codes[i];
      }
      out.scales[row * out.groupsStride + group] = scale;
      out.sums[row * out.groupsStride + group] = sum;
    }
}

} // namespace moert::reference
