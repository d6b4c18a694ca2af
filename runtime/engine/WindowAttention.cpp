#include "runtime/engine/WindowAttention.h"

#include <algorithm>
#include <cstring>

namespace moert {

/// Lines [begin, end) of a grid.
struct WindowAttention::Lines {
  uint32_t begin, end;
  uint32_t count() const { return end - begin; }
};

/// Windows along one side.
static uint64_t windowsAlong(const AttendWindowsInstruction &attend) {
  return attend.side / attend.window + (attend.shift != 0);
}

uint64_t WindowAttention::headsOfImage() const {
  return windowsAlong(attend) * windowsAlong(attend) * attend.heads;
}

uint64_t WindowAttention::operationsPerHead() const {
  const uint64_t rows = uint64_t(attend.window) * attend.window;
  return 2 * rows * rows * headDim;
}

/// The lines of a window, cut off by the edges of the grid.
WindowAttention::Lines WindowAttention::linesOf(uint32_t number) const {
  const uint32_t end = (number + (attend.shift == 0)) * attend.window + attend.shift;
  return {end > attend.window ? end - attend.window : 0, std::min(end, attend.side)};
}

void WindowAttention::scoreWithBias(uint32_t head, uint32_t place, const Lines &ys, const Lines &xs,
                                    float *scores) const {
  const uint32_t span = 2 * attend.window - 1;
  const uint32_t y = place / xs.count(), x = place % xs.count();
  for (uint32_t i = 0; i < ys.count(); ++i) {
    const float *first =
        bias + (uint64_t(head) * span + y + attend.window - 1 - i) * span + x + attend.window - 1;
    for (uint32_t j = 0; j < xs.count(); ++j, ++scores)
      *scores = attend.scale * *scores + *(first - j);
  }
}

void WindowAttention::compute(uint64_t firstRow, uint64_t number, float *scratch) const {
  const auto head = static_cast<uint32_t>(number % attend.heads);
  const uint64_t along = windowsAlong(attend), window = number / attend.heads;
  const Lines ys = linesOf(static_cast<uint32_t>(window / along)),
              xs = linesOf(static_cast<uint32_t>(window % along));
  const auto elementOf = [&](uint32_t place) {
    const uint64_t y = ys.begin + place / xs.count(), x = xs.begin + place % xs.count();
    return (firstRow + y * attend.side + x) * stride + uint64_t(head) * headDim;
  };
  const uint32_t count = ys.count() * xs.count();
  const uint64_t keyStride = roundUp(uint64_t(attend.window) * attend.window, 16),
                 valueStride = roundUp(headDim, 16);
  float *const values = scratch + headDim * keyStride,
               *const scores = values + keyStride * valueStride, *const result = scores + keyStride;
  for (uint32_t place = 0; place < count; ++place) {
    const uint64_t at = elementOf(place);
    for (uint32_t i = 0; i < headDim; ++i)
      scratch[i * keyStride + place] = key[at + i];
    std::memcpy(values + place * valueStride, value + at, headDim * sizeof(float));
  }
  for (uint32_t place = 0; place < count; ++place) {
    const uint64_t at = elementOf(place);
    kernels.combineRanks(scratch, keyStride, query + at, headDim, count, scores);
    scoreWithBias(head, place, ys, xs, scores);
    kernels.softmax(scores, count, scores);
    kernels.combineRanks(values, valueStride, scores, count, headDim, result);
    std::memcpy(out + at, result, headDim * sizeof(float));
  }
}

} // namespace moert
