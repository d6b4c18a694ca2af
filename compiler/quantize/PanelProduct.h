// Float matrices in the kernels' layout, and products with them. The kernels' result is defined to
// the bit (docs/numbers.md). The quantizers use them for that reason: the bytes of an artifact must
// not depend on the machine.
#pragma once

#include "runtime/exec/Kernels.h"

#include <cstdint>
#include <memory>
#include <span>

namespace moec {

/// Owns floats at a multiple of 64 bytes, initially zero.
class AlignedFloats {
public:
  AlignedFloats() = default;
  explicit AlignedFloats(size_t count);

  float *data() { return values.get(); }
  const float *data() const { return values.get(); }
  size_t size() const { return count; }

private:
  struct Free {
    void operator()(float *memory) const;
  };
  std::unique_ptr<float[], Free> values;
  size_t count = 0;
};

/// Elements from one row of activations to the next: a multiple of 16.
constexpr uint64_t strideFor(uint64_t cols) {
  return (cols + 15) / 16 * 16;
}

/// A matrix in panel layout, [panel][col][16 rows], the last panel padded with zeros. Owns it.
struct PanelMatrix {
  moert::MatrixShape shape;
  AlignedFloats values;

  uint32_t panels() const { return (shape.rows + moert::kPanelRows - 1) / moert::kPanelRows; }
  float *panel(uint32_t index) {
    return values.data() + size_t(index) * shape.cols * moert::kPanelRows;
  }
  const float *panel(uint32_t index) const { return const_cast<PanelMatrix *>(this)->panel(index); }
};

PanelMatrix panelsOf(const moert::MatrixShape &shape, std::span<const float> rows);

/// 16 rows from `firstRow` on as [col][16], zeros for rows that the matrix does not have.
void fillPanel(const moert::MatrixShape &shape, std::span<const float> rows, uint32_t firstRow,
               float *panel);

/// y[r][n] = sum over i < cols of panels[n / 16][i][n % 16] * x[r][i] for all n of `panels` whole
/// panels. x and y are 64-byte aligned, their strides multiples of 16.
struct PanelProduct {
  const float *panels;
  uint32_t panelCount, cols;
  const float *x;
  uint64_t xStride;
  uint32_t rows;
  float *y;
  uint64_t yStride;
};
void multiply(const moert::KernelTable &kernels, const PanelProduct &product);

} // namespace moec
