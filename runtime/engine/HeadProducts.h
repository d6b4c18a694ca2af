// Products per head (LinearHeadsInstruction): each head has a matrix and a part of every row.
#pragma once

#include "runtime/exec/Kernels.h"

#include <cstdint>

namespace moert {

/// Borrows everything. Of each row, head h has inputs [w.cols | kept] from h * (w.cols + kept) on,
/// and results [kept | outputs()] from h * (kept + outputs()) on. Its matrix is the rows of w from
/// h * outputs() on. The bits do not depend on how panels and rows are divided.
struct HeadProducts {
  const KernelTable &kernels;
  const WeightView &w; // Float.
  uint32_t heads, kept;
  const float *src;
  uint64_t srcStride;
  float *dst;
  uint64_t dstStride;
  uint32_t rows;

  uint32_t outputs() const { return w.shape.rows / heads; }

  /// Copies the elements of each head that are not multiplied.
  void keep() const;
  /// The products of a matrix in panel layout; panels [begin, end) of it.
  void multiply(uint32_t begin, uint32_t end) const;
  /// All products of a matrix in row layout.
  void multiplyRows() const;

private:
  const float *input(uint32_t head) const { return src + uint64_t(head) * (w.shape.cols + kept); }
  /// Where row 0 of w would have its result if it were this head's.
  float *firstResult(uint32_t head) const { return dst + uint64_t(head + 1) * kept; }
  void multiplyShared(uint32_t panel) const;
};

} // namespace moert
