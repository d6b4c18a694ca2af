// Products with float matrices in lanes: the 16 outputs of a panel in panel layout, 16 partial sums
// in row layout. Included after Elementwise.h.
#pragma once

#include "runtime/kernels/Kernels.h"

namespace moert {
namespace {

/// The address of byte `index` of the pages, and the bytes from there to the end of its page.
struct PageRun {
  const std::byte *data;
  uint64_t bytes;
};
inline PageRun runFrom(const PagedBytes &bytes, uint64_t index) {
  uint64_t pageBytes = uint64_t(1) << bytes.pageShift;
  uint64_t position = bytes.offset + index;
  uint64_t inPage = position & (pageBytes - 1);
  return {bytes.pages[position >> bytes.pageShift] + inPage, pageBytes - inPage};
}

/// 16 elements of a kind, and the size of one element in bytes.
template <WeightKind kKind> struct Element;
template <> struct Element<WeightKind::kF32> {
  static constexpr uint32_t kBytes = 4;
  static Lanes load(const std::byte *from) { return loadF32(from); }
};
template <> struct Element<WeightKind::kF16> {
  static constexpr uint32_t kBytes = 2;
  static Lanes load(const std::byte *from) { return loadF16(from); }
};
template <> struct Element<WeightKind::kBF16> {
  static constexpr uint32_t kBytes = 2;
  static Lanes load(const std::byte *from) { return loadBF16(from); }
};

struct FloatTask {
  const WeightView &w;
  const float *x; // First row of the tile.
  uint64_t xStride;
  float *y; // First row of the tile, output 0.
  uint64_t yStride;
};

/// The number of a panel's outputs that the matrix has.
inline uint32_t realOutputs(const WeightView &w, uint32_t panel) {
  uint32_t left = w.shape.rows - panel * kPanelRows;
  return left < kPanelRows ? left : kPanelRows;
}

/// kRows rows times kPanels panels. Each sum is a chain of fmas, so several sums must be in
/// progress at once; with few rows, more panels provide them.
template <WeightKind kKind, int kRows, int kPanels>
void floatTile(const FloatTask &task, uint32_t panel) {
  constexpr uint64_t kUnit = kPanelRows * Element<kKind>::kBytes;
  const uint32_t cols = task.w.shape.cols;
  Lanes totals[kRows][kPanels], block[kRows][kPanels];
  for (int r = 0; r < kRows; ++r)
    for (int p = 0; p < kPanels; ++p)
      totals[r][p] = block[r][p] = zeroLanes();

  for (uint32_t i = 0; i < cols;) {
    // Up to the end of the sum block or of the first page that ends.
    uint32_t inBlock = kSumBlock - i % kSumBlock;
    uint32_t runEnd = inBlock < cols - i ? i + inBlock : cols;
    const std::byte *data[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      PageRun run = runFrom(task.w.bytes, (uint64_t(panel + p) * cols + i) * kUnit);
      data[p] = run.data;
      if (run.bytes / kUnit < runEnd - i)
        runEnd = i + static_cast<uint32_t>(run.bytes / kUnit);
    }
    uint32_t count = runEnd - i;
    const float *x = task.x + i;
    for (uint32_t k = 0; k < count; ++k)
      for (int p = 0; p < kPanels; ++p) {
        Lanes weights = Element<kKind>::load(data[p] + k * kUnit);
        for (int r = 0; r < kRows; ++r)
          block[r][p] = fma(weights, splat(x[r * task.xStride + k]), block[r][p]);
      }
    i = runEnd;
    if (i % kSumBlock != 0 && i != cols)
      continue;
    for (int r = 0; r < kRows; ++r)
      for (int p = 0; p < kPanels; ++p) {
        totals[r][p] = add(totals[r][p], block[r][p]);
        block[r][p] = zeroLanes();
      }
  }
  for (int r = 0; r < kRows; ++r)
    for (int p = 0; p < kPanels; ++p)
      storeUpTo(task.y + r * task.yStride + (panel + p) * kPanelRows, totals[r][p],
                realOutputs(task.w, panel + p));
}

/// All panels for kRows rows.
template <WeightKind kKind, int kRows, int kPanels>
inline void floatPanels(const FloatTask &task, uint32_t panelBegin, uint32_t panelEnd) {
  uint32_t panel = panelBegin;
  for (; panel + kPanels <= panelEnd; panel += kPanels)
    floatTile<kKind, kRows, kPanels>(task, panel);
  for (; panel < panelEnd; ++panel)
    floatTile<kKind, kRows, 1>(task, panel);
}

/// Panels in the outer loop, rows in the inner: a panel is read once from memory and then from the
/// cache. A single row reads one panel after the other, since the hardware prefetcher follows one
/// stream best: 0.91 of a plain read's rate with bf16, four panels at a time 0.82 (KernelBench, Zen
/// 4).
template <WeightKind kKind>
void floatRows(FloatTask task, uint32_t rows, uint32_t panelBegin, uint32_t panelEnd) {
  constexpr uint32_t kPanelsAtOnce = 4;
  const float *x = task.x;
  float *y = task.y;
  for (uint32_t panel = panelBegin; panel < panelEnd; panel += kPanelsAtOnce) {
    uint32_t end = panelEnd - panel < kPanelsAtOnce ? panelEnd : panel + kPanelsAtOnce;
    auto tile = [&](uint32_t row, auto compute) {
      task.x = x + row * task.xStride;
      task.y = y + row * task.yStride;
      compute(task, panel, end);
    };
    uint32_t row = 0;
    for (; row + kFloatRows <= rows; row += kFloatRows)
      tile(row, floatPanels<kKind, kFloatRows, 1>);
    if constexpr (kFloatRows > 4)
      for (; row + 4 <= rows; row += 4)
        tile(row, floatPanels<kKind, 4, 2>);
    for (; row + 2 <= rows; row += 2)
      tile(row, floatPanels<kKind, 2, kFloatRows / 2>);
    for (; row < rows; ++row)
      tile(row, rows == 1 ? floatPanels<kKind, 1, 1> : floatPanels<kKind, 1, 4>);
  }
}

void linearFloat(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows, float *y,
                 uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd) {
  FloatTask task = {w, x, xStride, y, yStride};
  if (w.format.kind == WeightKind::kF32)
    floatRows<WeightKind::kF32>(task, rows, panelBegin, panelEnd);
  else if (w.format.kind == WeightKind::kF16)
    floatRows<WeightKind::kF16>(task, rows, panelBegin, panelEnd);
  else
    floatRows<WeightKind::kBF16>(task, rows, panelBegin, panelEnd);
}

/// `count` elements, 16 at most, of a row that starts at byte `index`; they may straddle pages, and
/// no byte after them is read.
template <WeightKind kKind>
inline Lanes loadRowElements(const PagedBytes &bytes, uint64_t index, uint32_t count) {
  constexpr uint32_t kBytes = Element<kKind>::kBytes;
  PageRun run = runFrom(bytes, index);
  if (count == kLanes && run.bytes >= kLanes * kBytes)
    return Element<kKind>::load(run.data);
  std::byte buffer[kLanes * kBytes] = {};
  for (uint32_t i = 0; i < count; ++i)
    __builtin_memcpy(buffer + i * kBytes, runFrom(bytes, index + i * kBytes).data, kBytes);
  return Element<kKind>::load(buffer);
}

template <WeightKind kKind> float rowOutput(const WeightView &w, const float *x, uint32_t output) {
  constexpr uint32_t kBytes = Element<kKind>::kBytes;
  uint64_t begin = uint64_t(output) * w.shape.cols;
  Lanes sums = zeroLanes();
  forLanes(w.shape.cols, [&](uint64_t i, uint32_t count) {
    Lanes weights = loadRowElements<kKind>(w.bytes, (begin + i) * kBytes, count);
    if (count == kLanes)
      sums = fma(weights, load(x + i), sums);
    else
      sums = fmaFirst(weights, loadFirst(x + i, count), sums, count);
  });
  return treeSum(sums);
}

void linearRows(const WeightView &w, const float *x, uint64_t xStride, uint32_t rows, float *y,
                uint64_t yStride) {
  for (uint32_t output = 0; output < w.shape.rows; ++output)
    for (uint32_t row = 0; row < rows; ++row) {
      const float *from = x + row * xStride;
      float *to = y + row * yStride + output;
      if (w.format.kind == WeightKind::kF32)
        *to = rowOutput<WeightKind::kF32>(w, from, output);
      else if (w.format.kind == WeightKind::kF16)
        *to = rowOutput<WeightKind::kF16>(w, from, output);
      else
        *to = rowOutput<WeightKind::kBF16>(w, from, output);
    }
}

} // namespace
} // namespace moert
