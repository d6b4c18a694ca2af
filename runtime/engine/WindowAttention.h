// Attention within windows of a grid (AttendWindowsInstruction), one head of a window at a time.
// The kernels define every sum, so that the result has the same bits with each of their versions.
#pragma once

#include "runtime/base/CheckedMath.h"
#include "runtime/exec/Kernels.h"

#include <cstdint>

namespace moert {

/// Floats that computing one head of a window works in: keys [headDim][rows], values
/// [rows][headDim], the scores of a query and its result, rows and columns rounded up to lanes.
constexpr uint64_t windowScratchFloats(uint32_t window, uint32_t headDim) {
  const uint64_t rows = roundUp(uint64_t(window) * window, 16), width = roundUp(headDim, 16);
  return headDim * rows + rows * width + rows + width;
}

/// Borrows everything. query, key, value and out are rows of heads * headDim elements.
struct WindowAttention {
  const KernelTable &kernels;
  const AttendWindowsInstruction &attend;
  uint32_t headDim;
  const float *query, *key, *value;
  uint64_t stride; // Floats from a row of any of the four to the next.
  const float *bias;
  float *out;

  /// Windows of an image times heads.
  uint64_t headsOfImage() const;
  /// Multiply-adds that one of them takes at most.
  uint64_t operationsPerHead() const;

  /// Computes one of headsOfImage() of the image that begins with the row firstRow. scratch:
  /// windowScratchFloats(), 64-byte aligned.
  ///
  /// score = scale * (query . key) + bias, each step rounded, the product by combineRanks() over
  /// the head's elements; softmax(); the values by combineRanks() over the window's rows.
  void compute(uint64_t firstRow, uint64_t number, float *scratch) const;

private:
  struct Lines;
  Lines linesOf(uint32_t number) const;
  void scoreWithBias(uint32_t head, uint32_t place, const Lines &ys, const Lines &xs,
                     float *scores) const;
};

} // namespace moert
