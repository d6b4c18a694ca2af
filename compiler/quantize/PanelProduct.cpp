#include "compiler/quantize/PanelProduct.h"

#include <algorithm>
#include <cassert>
#include <new>

using namespace moert;

namespace moec {

AlignedFloats::AlignedFloats(size_t size)
    : values(static_cast<float *>(::operator new(size * sizeof(float), std::align_val_t(64)))),
      count(size) {
  std::fill_n(values.get(), size, 0.0f);
}

void AlignedFloats::Free::operator()(float *memory) const {
  ::operator delete(memory, std::align_val_t(64));
}

void fillPanel(const MatrixShape &shape, std::span<const float> rows, uint32_t firstRow,
               float *panel) {
  const uint32_t count = std::min(kPanelRows, shape.rows - firstRow);
  if (count < kPanelRows)
    std::fill_n(panel, size_t(shape.cols) * kPanelRows, 0.0f);
  for (uint32_t lane = 0; lane < count; ++lane) {
    const float *row = rows.data() + size_t(firstRow + lane) * shape.cols;
    for (size_t col = 0; col < shape.cols; ++col)
      panel[col * kPanelRows + lane] = row[col];
  }
}

PanelMatrix panelsOf(const MatrixShape &shape, std::span<const float> rows) {
  assert(rows.size() == size_t(shape.rows) * shape.cols);
  PanelMatrix matrix = {shape, {}};
  matrix.values = AlignedFloats(size_t(matrix.panels()) * shape.cols * kPanelRows);
  for (uint32_t panel = 0; panel < matrix.panels(); ++panel)
    fillPanel(shape, rows, panel * kPanelRows, matrix.panel(panel));
  return matrix;
}

void multiply(const KernelTable &kernels, const PanelProduct &product) {
  const std::byte *page = reinterpret_cast<const std::byte *>(product.panels);
  WeightView view;
  view.shape = {product.panelCount * kPanelRows, product.cols};
  view.format = {WeightKind::kF32, 0, 0, false};
  view.layout.isPanels = true;
  view.layout.panels = product.panelCount;
  view.layout.paddedCols = product.cols;
  view.layout.codesBytes = view.layout.bytes =
      uint64_t(view.shape.rows) * product.cols * sizeof(float);
  view.bytes = PagedBytes::contiguous(&page);
  kernels.linearFloat(view, product.x, product.xStride, product.rows, product.y, product.yStride, 0,
                      product.panelCount);
}

} // namespace moec
