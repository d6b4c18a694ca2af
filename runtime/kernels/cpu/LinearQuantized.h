// Products with quantized matrices in lanes, one panel times a few rows at a time. dotGroup, the
// sum of one group in integers, is the instruction set's own (Dot256.h, Dot512.h). Included behind
// those and LinearFloat.h.
#pragma once

#include "runtime/kernels/Kernels.h"

namespace moert {
namespace {

struct QuantizedTask {
  const WeightView &w;
  QuantizedRows x; // From the tile's first row on.
  float *y;
  uint64_t yStride;
};

/// A run of whole activation groups whose codes and scales each lie in one page.
struct GroupRun {
  const std::byte *codes;
  const std::byte *table; // The entry of the first group.
  uint32_t count;
};

/// From activation group `group` of a panel on. `ratio` activation groups share an entry.
template <uint32_t kGroupBytes>
inline GroupRun groupRunFrom(const WeightView &w, uint64_t table, uint32_t panel, uint32_t group,
                             uint32_t groups, uint32_t ratio) {
  constexpr uint64_t kEntryBytes = kPanelRows * 2;
  GroupRun run = {nullptr, nullptr, groups - group};
  if constexpr (kGroupBytes > 0) {
    PageRun codes = runFrom(w.bytes, (uint64_t(panel) * groups + group) * kGroupBytes);
    run.codes = codes.data;
    if (codes.bytes / kGroupBytes < run.count)
      run.count = static_cast<uint32_t>(codes.bytes / kGroupBytes);
  }
  uint32_t entry = group / ratio;
  uint64_t entryIndex = uint64_t(panel) * w.layout.groupsPerRow + entry;
  PageRun entries = runFrom(w.bytes, table + entryIndex * kEntryBytes);
  run.table = entries.data;
  uint64_t covered = (entry + entries.bytes / kEntryBytes) * ratio - group;
  if (covered < run.count)
    run.count = static_cast<uint32_t>(covered);
  return run;
}

/// Entry after entry of a table of scales or offsets, each for `ratio` activation groups.
class EntryCursor {
public:
  EntryCursor(const std::byte *table, uint32_t group, uint32_t entryRatio)
      : next(table), ratio(entryRatio), left(entryRatio - group % entryRatio) {}

  Lanes take() {
    Lanes entry = loadF16(next);
    if (--left == 0) {
      left = ratio;
      next += kPanelRows * 2;
    }
    return entry;
  }

private:
  const std::byte *next;
  uint32_t ratio, left;
};

template <int kBits, int kGroup, int kRows>
inline void addProducts(const QuantizedTask &task, uint32_t panel, Lanes *sums) {
  constexpr uint32_t kGroupBytes = kPanelRows * kGroup * kBits / 8;
  const uint32_t groups = task.x.cols / kGroup;
  const uint32_t ratio = task.w.format.group / kGroup;
  for (uint32_t group = 0; group < groups;) {
    GroupRun run =
        groupRunFrom<kGroupBytes>(task.w, task.w.layout.scalesOffset, panel, group, groups, ratio);
    EntryCursor weightScales(run.table, group, ratio);
    const int8_t *codes = task.x.codes + group * kGroup;
    for (uint32_t k = 0; k < run.count; ++k, ++group) {
      Lanes products[kRows];
      dotGroup<kBits, kGroup, kRows>(run.codes + uint64_t(k) * kGroupBytes, codes + k * kGroup,
                                     task.x.codesStride, task.x.sums + group, task.x.groupsStride,
                                     products);
      Lanes weightScale = weightScales.take();
      for (int r = 0; r < kRows; ++r) {
        Lanes scale = multiply(weightScale, splat(task.x.scales[r * task.x.groupsStride + group]));
        sums[r] = fma(products[r], scale, sums[r]);
      }
    }
  }
}

template <int kGroup, int kRows>
inline void addOffsets(const QuantizedTask &task, uint32_t panel, Lanes *sums) {
  const uint32_t groups = task.x.cols / kGroup;
  const uint32_t ratio = task.w.format.group / kGroup;
  for (uint32_t group = 0; group < groups;) {
    GroupRun run =
        groupRunFrom<0>(task.w, task.w.layout.offsetsOffset, panel, group, groups, ratio);
    EntryCursor offsets(run.table, group, ratio);
    for (uint32_t k = 0; k < run.count; ++k, ++group) {
      Lanes offset = offsets.take();
      for (int r = 0; r < kRows; ++r) {
        uint64_t entry = r * task.x.groupsStride + group;
        float sum = static_cast<float>(task.x.sums[entry]) * task.x.scales[entry];
        sums[r] = fma(splat(sum), offset, sums[r]);
      }
    }
  }
}

template <int kBits, int kGroup, int kRows>
void quantizedTile(const QuantizedTask &task, uint32_t panel) {
  Lanes sums[kRows];
  for (int r = 0; r < kRows; ++r)
    sums[r] = zeroLanes();
  addProducts<kBits, kGroup, kRows>(task, panel, sums);
  if (task.w.format.hasOffsets)
    addOffsets<kGroup, kRows>(task, panel, sums);
  for (int r = 0; r < kRows; ++r)
    storeUpTo(task.y + r * task.yStride + panel * kPanelRows, sums[r], realOutputs(task.w, panel));
}

/// Panels outside, rows inside: a panel is read once from memory and then from the cache.
template <int kBits, int kGroup>
void quantizedPanels(const QuantizedTask &all, uint32_t rows, uint32_t panelBegin,
                     uint32_t panelEnd) {
  QuantizedTask task = all;
  for (uint32_t panel = panelBegin; panel < panelEnd; ++panel) {
    auto tile = [&](uint32_t row, auto compute) {
      task.x.codes = all.x.codes + row * all.x.codesStride;
      task.x.scales = all.x.scales + row * all.x.groupsStride;
      task.x.sums = all.x.sums + row * all.x.groupsStride;
      task.y = all.y + row * all.yStride;
      compute(task, panel);
    };
    uint32_t row = 0;
    if constexpr (kQuantizedRows > 4)
      for (; row + 8 <= rows; row += 8)
        tile(row, quantizedTile<kBits, kGroup, 8>);
    for (; row + 4 <= rows; row += 4)
      tile(row, quantizedTile<kBits, kGroup, 4>);
    for (; row + 2 <= rows; row += 2)
      tile(row, quantizedTile<kBits, kGroup, 2>);
    for (; row < rows; ++row)
      tile(row, quantizedTile<kBits, kGroup, 1>);
  }
}

template <int kBits>
void quantizedGroups(const QuantizedTask &task, uint32_t rows, uint32_t panelBegin,
                     uint32_t panelEnd) {
  if (task.x.group == 16)
    quantizedPanels<kBits, 16>(task, rows, panelBegin, panelEnd);
  else if (task.x.group == 32)
    quantizedPanels<kBits, 32>(task, rows, panelBegin, panelEnd);
  else
    quantizedPanels<kBits, 64>(task, rows, panelBegin, panelEnd);
}

void linearQuantized(const WeightView &w, const QuantizedRows &x, uint32_t rows, float *y,
                     uint64_t yStride, uint32_t panelBegin, uint32_t panelEnd) {
  QuantizedTask task = {w, x, y, yStride};
  if (w.format.kind == WeightKind::kInt8)
    quantizedGroups<8>(task, rows, panelBegin, panelEnd);
  else if (w.format.kind == WeightKind::kInt4)
    quantizedGroups<4>(task, rows, panelBegin, panelEnd);
  else
    quantizedGroups<2>(task, rows, panelBegin, panelEnd);
}

} // namespace
} // namespace moert
